"""Schedules: what is due when, and which worker runs it."""
