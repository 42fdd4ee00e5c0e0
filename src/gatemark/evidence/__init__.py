"""From bytes to typed records: open, split, admit.

Received always equals accepted plus rejected.
"""
