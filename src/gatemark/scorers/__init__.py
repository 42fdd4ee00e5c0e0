"""Scorers, one file each; each is found by its file and carries worked examples."""
