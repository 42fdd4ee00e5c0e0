"""The cross-agent agreement exam: whether two independent validators say the same."""

from gatemark.suites.agreement.exam import SUITE

__all__ = ["SUITE"]
