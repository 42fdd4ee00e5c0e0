"""The package concepts."""
