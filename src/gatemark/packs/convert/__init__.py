"""Create packs from promptfoo configs and Inspect logs.

``gatemark init --from`` writes what ``promptfoo`` or ``inspect`` returns here. What cannot be
converted is reported, never guessed.
"""
