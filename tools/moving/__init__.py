"""The parts of ``tools.move_modules``: maps, names in text, scopes, and rewriting of one file."""
