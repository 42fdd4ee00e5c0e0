"""The types of the lifecycle: its state, release policy and legal moves."""
