"""Processes that run ``python:`` targets outside the judge.

``worker.py`` is the program of such a process and ``worker_loop`` what it does. ``worker_process``
starts, watches and ends one for the judge, and ``worker_wire`` defines their messages.
``targets/python_worker.py`` is the target that uses them.
"""
