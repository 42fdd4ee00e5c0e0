"""Packs: the suites a change must pass, how they are run, judged and sealed.

``run_pack``, ``matrix`` and ``gate`` tell ``gatemark run`` and ``gatemark gate`` in full,
``rescore`` derives stored results again. ``run`` has the run by phase; ``run_plan``, ``session``,
``judge`` and ``seal`` take it from one phase to the next.
"""
