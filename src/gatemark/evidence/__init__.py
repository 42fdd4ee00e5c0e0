"""From bytes to typed records: open, split, read.

Received always equals accepted plus rejected.
"""
