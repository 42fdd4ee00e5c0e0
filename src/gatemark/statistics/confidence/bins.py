"""How many bins a judgement of calibration needs; a light module, for commands and packs."""

from __future__ import annotations

from typing import Final

from gatemark.core.reason import Reason, ReasonKind

INFORMATIVE: Final = "informative"
"""The rule that confidences say something, and that the bins let it be seen."""
MIN_JUDGED_BINS: Final = 10
FEW_BINS: Final = ReasonKind(
    "too_few_bins",
    "errors cancel inside wide bins (one bin compares only the means), so bins must be >= "
    "{needed}, got {bins}",
)


def explain_few_bins(bins: int) -> Reason | None:
    """Return why so few bins cannot show that confidences are calibrated; None if they can."""
    return FEW_BINS(bins=bins, needed=MIN_JUDGED_BINS) if bins < MIN_JUDGED_BINS else None
