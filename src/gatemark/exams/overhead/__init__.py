"""The overhead exam: what a guard costs on the same windows.

``arms`` reads the two arms, ``pairing`` proves that they fit, ``measure`` has the numbers,
``costs`` has time and memory, ``summary`` the report. ``verify`` computes a report again,
``plain_check`` does so without Gatemark, and ``run`` measures a target (``targets``).
"""
