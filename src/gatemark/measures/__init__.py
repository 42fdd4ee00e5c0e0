"""Folds, one file each; a measure is found by its file and carries its own known answers."""
