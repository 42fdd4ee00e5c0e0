"""The package exams."""
