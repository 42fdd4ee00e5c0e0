"""Checks that plugin authors run over their own measures, schemas, scorers and exams."""
