"""Targets, and the runner that calls them: each call ends as one reply or one error."""
