"""Scorers, one file each; a scorer is found by its file and carries its own known answers."""
