"""Drift of what is live: points, windows, detectors, episodes, demotion and alerts.

``push`` takes points in, ``probe`` judges windows (``judging``, with one file per detector in
``detectors``), ``act`` demotes or pauses by the policy, ``alerts`` sends through ``sinks``.
``events`` declares what drift writes to the ledger, ``views`` is what commands and pages show.
"""
