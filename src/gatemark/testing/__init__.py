"""Checks that plugin authors run over their own folds, schemas and suites."""
