"""A pattern that the output must match; matched in linear time, so no pattern can hang a run."""

from gatemark.scorers.regex.scorer import SCORER

__all__ = ["SCORER"]
