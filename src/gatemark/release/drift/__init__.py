"""Drift of live versions: points, windows, detectors, episodes, demotion and alerts.

``push`` stores points and ``probe`` judges their windows (``judging``, with one detector per file
in ``detectors``). ``act`` demotes or pauses versions by the policy, and ``alert_owners`` tells
people. ``events`` declares the ledger events of drift; ``views`` holds what commands and pages
show.
"""
