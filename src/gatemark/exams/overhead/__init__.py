"""The guard-overhead exam: what guards cost, proved on the same windows."""

from gatemark.exams.overhead.exam import SUITE

__all__ = ["SUITE"]
