"""The preference exam: which of two answers blind reviewers prefer."""
