"""One file per foreign log format; each holds an `IMPORTER`."""
