"""The advisory exam: agreement of recommendations with their references, and conduct, by lane.

``decision`` has the record and its rules, ``metrics`` the table of metrics, ``measure`` the fold,
``findings`` the numbers under a policy, ``views`` the summary and figures. ``dry_run`` makes
records, ``fixtures`` has their inputs, and ``gateway`` serves the reference models.
"""
