"""The nouns of run logs: traces, run logs, manifests and metrics as types, and how they are named.

The schemas of the four files show these types to the outside, and the run-log room works on
them; both may import this hallway and not each other.
"""
