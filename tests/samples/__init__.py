"""The package samples."""
