"""Packs made from what users of other tools have: promptfoo configs and Inspect logs.

``gatemark init --from`` writes what ``promptfoo`` or ``inspect`` makes here. What cannot be
converted is told, never guessed.
"""
