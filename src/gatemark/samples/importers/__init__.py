"""One file per log format of another tool; each defines an `IMPORTER`."""
