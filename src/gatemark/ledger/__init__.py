"""The ledger: a hash chain of events, signing keys, sealed results and the files they depend on."""
