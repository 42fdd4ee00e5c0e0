"""The package packs.convert."""
