"""The demo: synthetic data, and the scripts that play it."""
