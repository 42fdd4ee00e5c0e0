"""The advisory exam: agreement of recommendations with their references, and conduct, by lane.

- ``record`` has the fields of a record, ``record_rules`` what it must not say, ``category`` and
  ``taxonomy`` how it compares with its reference.
- ``count_batch`` counts a batch by its columns (``record_columns``) into a state (``exam_state``);
  ``privacy_scan`` and ``violations`` are what it finds on the way, ``merge_states`` adds states.
- ``metrics`` is the table of what is counted over which records; ``findings`` has the numbers
  under a policy, ``run_history`` those over several runs.
- ``gate_rules`` judge them, ``promotion`` has the blockers of a lane, ``summary`` and ``figures``
  show all of it.
- ``dry_run`` makes records, ``fixtures`` has their inputs, ``gateway`` serves reference models.
"""
