"""Plain numeric routines on arrays and counts; no records, no files, no opinions."""
