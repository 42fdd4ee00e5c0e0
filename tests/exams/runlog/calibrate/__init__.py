"""The package calibrate."""
