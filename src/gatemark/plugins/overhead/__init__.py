"""The overhead exam: what a guard costs on the same windows.

``arms`` reads the two arms, ``pairing`` checks that they match, ``measure`` has the numbers,
``costs`` has time and memory, ``document`` the report. ``verify`` recomputes a report, and
``run`` measures a target (``targets``).
"""
