"""The advisory dry run: fixtures, the services that advise on them, and the records."""
