"""The package agreement."""
