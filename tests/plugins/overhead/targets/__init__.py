"""The package targets."""
