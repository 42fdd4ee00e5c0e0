"""Verify a whole ledger from its stored rows."""
