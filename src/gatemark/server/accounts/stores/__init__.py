"""The tables of accounts."""
