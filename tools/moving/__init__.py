"""The parts of ``tools/move_modules.py``: maps, names in text, scopes, rewriting of one file."""
