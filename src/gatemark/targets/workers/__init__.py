"""Processes that run ``python:`` targets outside the judge.

``worker.py`` is the program of such a process and ``worker_loop`` what it does; ``worker_wire``
defines their messages. ``targets/python_worker.py`` starts and watches the process for the judge.
"""
