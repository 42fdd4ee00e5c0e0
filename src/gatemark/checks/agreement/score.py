"""``gatemark score agreement``: whether two independent validators give the same labels."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from gatemark.checks.agreement.exam import SUITE
from gatemark.checks.agreement.rules import AgreementGates
from gatemark.checks.score import EVERY_EXAM, score_verb
from gatemark.evidence.exam_options import file_option


class AgreementParameters(AgreementGates, frozen=True, forbid_unknown_fields=True):
    """The options of the command."""

    labels: Annotated[
        str | None, file_option("Your own labels: YAML with the role of each, and further keys.")
    ] = None


def to_options(parameters: AgreementParameters, _now: datetime) -> dict[str, object]:
    """Return the exam's options; a file of labels is read here."""
    options: dict[str, object] = msgspec.to_builtins(parameters)
    path = options.pop("labels")
    if path is None:
        return options
    # Imported late: most files use the built-in labels.
    from gatemark.checks.agreement.labels import read_label_spec  # noqa: PLC0415

    return {**options, **read_label_spec(str(path))}


SCORE = score_verb(
    SUITE,
    summary="Measure agreement between two validators, or several raters, and judge it.",
    help="""\
Percent agreement, Cohen's kappa, Gwet's AC1 and Krippendorff's alpha with intervals, and the
agreement on every single label; every row is arbitrated. A table of labels may have any number
of raters and empty cells.
Exit 0 pass, 1 fail, 2 bad input, 3 could not be judged.

\b
Examples:
  gatemark score agreement --pairs pairs.jsonl --out runs
  gatemark score agreement --scholar s.jsonl --auditor a.jsonl --json -o report.html
  gatemark score agreement --pairs pairs.jsonl --labels labels.yaml
  gatemark score agreement --table labels.csv --kappa-gate 0.7""",
    parameters=AgreementParameters,
    to_options=to_options,
    features=EVERY_EXAM | {"unpaired"},
    writes="finals.tsv and consistency_disagreements.tsv, or items.tsv",
)
