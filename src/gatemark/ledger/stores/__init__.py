"""Places where the ledger keeps its rows and blobs."""
