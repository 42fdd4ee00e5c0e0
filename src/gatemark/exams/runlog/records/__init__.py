"""The records of traces, run logs, manifests and metrics: types, rules, schemas and names.

For each of the four, one module has the types, one the rules, and one the schema with its
examples.
"""
