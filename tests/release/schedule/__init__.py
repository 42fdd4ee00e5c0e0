"""The package schedule."""
