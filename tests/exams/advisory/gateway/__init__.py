"""The package gateway."""
