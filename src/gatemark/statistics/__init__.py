"""Numeric routines on arrays and counts; no records and no files."""
