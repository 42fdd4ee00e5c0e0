"""The shared nouns, canonical bytes, digests and errors.

No clock, no files, no network, nothing heavier than msgspec.
"""
