"""Concepts in text: the extractors, the stoplists, and a record of what ran."""
