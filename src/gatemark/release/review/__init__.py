"""Blind review and labels: sealed positions, queues, votes and labels of people."""
