"""Traces of several agents: reading them, their text, and synthetic ones."""
