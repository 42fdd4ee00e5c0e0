"""Synthetic data for the demo, and the script that makes it."""
