"""Suite kinds: which evidence they read, which measures they compute, which rules they add."""
