"""The package traces."""
