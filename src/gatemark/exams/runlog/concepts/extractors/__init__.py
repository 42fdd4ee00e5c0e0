"""One file per extractor, each with an ``EXTRACTOR``."""
