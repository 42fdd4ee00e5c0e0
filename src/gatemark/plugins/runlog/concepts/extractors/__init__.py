"""Concept extractors, one file each, each with an ``EXTRACTOR``."""
