"""Check a whole ledger from its stored rows up."""
