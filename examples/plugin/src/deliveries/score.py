"""``gatemark score deliveries``: the exam's command with its own help and one more option."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from deliveries.exam import SUITE, DeliveriesOptions
from gatemark.evidence.exam_options import option
from gatemark.checks.score import EVERY_EXAM, score_verb


class DeliveriesParameters(DeliveriesOptions, frozen=True, forbid_unknown_fields=True):
    """The options of the command."""

    strict: Annotated[bool, option("Accept no late trip; same as --min-share 1.")] = False


def to_options(parameters: DeliveriesParameters, _now: datetime) -> dict[str, object]:
    """Return the exam's options."""
    options: dict[str, object] = msgspec.to_builtins(parameters)
    return {**options, "min_share": 1.0} if options.pop("strict") else options


SCORE = score_verb(
    SUITE,
    help="""\
\b
Example:
  gatemark score deliveries trips.jsonl --min-share 0.9""",
    parameters=DeliveriesParameters,
    to_options=to_options,
    features=EVERY_EXAM,
)
