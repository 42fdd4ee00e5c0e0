"""The package records."""
