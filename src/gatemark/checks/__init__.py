"""Exams: each package holds one, with its records, numbers, rules and command."""
