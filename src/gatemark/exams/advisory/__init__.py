"""The advisory exam: whether a dry run's recommendations may be discussed, lane by lane."""

from gatemark.exams.advisory.exam import SUITE

__all__ = ["SUITE"]
