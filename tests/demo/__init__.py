"""The package demo."""
