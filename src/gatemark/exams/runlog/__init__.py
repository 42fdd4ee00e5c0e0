"""The run-log exam: what variants of a summariser say, held against their traces."""

from gatemark.exams.runlog.exam import SUITE

__all__ = ["SUITE"]
