"""Measure guard overhead: the runner, the built-in targets, and PyTorch models."""
