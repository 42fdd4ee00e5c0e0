"""Concepts in text: who finds them, what is left out, and what really ran."""
