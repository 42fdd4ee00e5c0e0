"""Samples: one answer to one item each; importing, pairing and comparing them."""
