"""Exams, one kind each: which evidence, which measures, which rules."""
