"""The package preference."""
