"""Places where the ledger keeps its rows and blobs."""

from typing import Final

DATABASE: Final = "gatemark.sqlite3"
"""The SQLite file of a store that is a folder."""
