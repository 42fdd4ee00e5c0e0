"""The ledger: events, keys, sealed results and the files that they rest on."""
