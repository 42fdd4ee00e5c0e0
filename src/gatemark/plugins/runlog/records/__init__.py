"""The records of traces, run logs, manifests and metrics.

Each kind of log has its types in a module of its name (``run``), the rules of each record as rows
(``run_rules``), the rules across records, listed by name (``run_file_rules``), a schema of both
(``run_schema``) and known-good and known-bad records as data (``run_examples.json``). Run logs also
have rules of their bytes (``run_bytes``), a table of what older versions keep otherwise
(``older_fields``) with their types (``older_run``), and what only the source writes
(``source_marks``). ``fields`` has the types of values, ``names`` how things are named and hashed.
"""
