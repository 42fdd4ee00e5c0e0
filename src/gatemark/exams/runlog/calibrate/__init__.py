"""Choose the settings of the token gate from traces."""
