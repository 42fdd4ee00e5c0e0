"""What the built-in probes say."""
