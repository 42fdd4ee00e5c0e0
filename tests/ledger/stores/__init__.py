"""The package stores."""
