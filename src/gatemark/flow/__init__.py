"""Journeys through the rooms; the only floor that knows the way."""
