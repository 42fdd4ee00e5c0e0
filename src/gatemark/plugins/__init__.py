"""Exams of special evidence, each on the kernel alone.

The rest of Gatemark knows each by its entry points alone, as it would a plugin of a stranger.
"""
