"""Stores that hold the ledger's rows and blobs."""

from typing import Final

DATABASE: Final = "gatemark.sqlite3"
"""File name of the SQLite database in a store folder."""
