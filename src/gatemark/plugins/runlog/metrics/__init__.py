"""Metrics M1 to M10 of one run log: pure functions over plain values."""
