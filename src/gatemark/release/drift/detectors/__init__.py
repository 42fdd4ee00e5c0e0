"""The detectors, one file each with a ``DETECTOR``; ``judging.detector`` is the interface."""
