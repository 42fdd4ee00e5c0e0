"""Blind review: sealed positions, queues, votes and labels of people; no model judges here."""
