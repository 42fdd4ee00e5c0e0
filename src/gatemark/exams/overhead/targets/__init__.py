"""Measuring guard overhead: the runner, the targets that ship, and a checker that stands alone."""
