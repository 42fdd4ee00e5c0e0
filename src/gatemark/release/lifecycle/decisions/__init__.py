"""Decide commands: pure functions from state and command to events."""
