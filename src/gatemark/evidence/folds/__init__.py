"""Fold evidence files into the state of an exam."""
