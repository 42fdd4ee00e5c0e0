"""Processes that run ``python:`` targets away from the judge.

``worker.py`` is the program of such a process and ``worker_loop`` what it does; ``worker_wire`` is
what both sides write to each other. For the judge, ``targets/python_worker.py`` starts and watches
the process.
"""
