"""The package packs."""
