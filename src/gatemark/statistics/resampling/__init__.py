"""Bootstrap and other intervals by resampling."""
