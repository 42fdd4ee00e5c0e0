"""Keys, signed notes, checkpoints and signed statements."""
