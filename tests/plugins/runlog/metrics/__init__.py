"""The package metrics."""
