"""The exams of the kernel: each package holds one, with its records, numbers, rules and views."""
