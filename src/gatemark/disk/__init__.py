"""Writing files so that a reader sees all of one or none of it."""
