"""The package replay."""
