"""Watching: windows, detectors, episodes, what they do to an asset, and when to look."""
