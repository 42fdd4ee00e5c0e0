"""The command line: one module per verb, loaded when called."""
