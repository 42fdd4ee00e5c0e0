"""Keys, signed notes, checkpoints, statements and envelopes."""
