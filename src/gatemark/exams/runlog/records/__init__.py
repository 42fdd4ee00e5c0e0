"""The records of traces, run logs, manifests and metrics: types, rules, schemas and names.

``manifest`` and ``metrics`` have all of theirs in one module. The types of traces and run logs are
in ``trace`` and ``run``, alongside modules with their rules, their schemas and older versions.
"""
