"""From measurements to findings to a verdict."""
