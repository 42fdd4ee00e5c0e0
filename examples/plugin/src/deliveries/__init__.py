"""Deliveries that were promised by a time: an example of a Gatemark plugin."""
