"""The cross-agent agreement exam: whether two independent validators say the same."""

from gatemark.exams.agreement.exam import SUITE

__all__ = ["SUITE"]
