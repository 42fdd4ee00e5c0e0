"""How many bins a judgement of calibration needs; a light module, for commands and packs."""

from __future__ import annotations

from typing import Final

INFORMATIVE: Final = "informative"
"""The rule that confidences say something, and that the bins let it be seen."""
MIN_JUDGED_BINS: Final = 10


def explain_few_bins(bins: int) -> str:
    """Return why so few bins cannot show that confidences are calibrated."""
    return (
        f"{bins} bins hide errors that cancel inside a bin (one bin compares only the means); "
        f"use {MIN_JUDGED_BINS} or more"
    )
