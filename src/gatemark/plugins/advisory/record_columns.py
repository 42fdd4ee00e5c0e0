"""A batch of decisions as columns: one value per record, read once for rules, scan and counts.

Columns of fields have the path of the field (``fallback.kind``) and hold what records say. The
others are derived; a key of ``exam_state`` names those by which it counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import UnsetType

from gatemark.evidence.columns import Columns, read_columns
from gatemark.plugins.advisory.category import is_applicable
from gatemark.plugins.advisory.npu_proof import grade_proofs
from gatemark.plugins.advisory.policy import make_lane_name
from gatemark.plugins.advisory.record import CASE_NOTES, AdvisoryDecision
from gatemark.plugins.advisory.record_rules import BreachKind


class _FieldReader:
    """Reads all fields of batches, and remembers the last batch.

    The reader of the file checks the rules of a batch, then the exam counts the same batch.
    """

    def __init__(self) -> None:
        self._last: tuple[Sequence[AdvisoryDecision], Columns] = ((), {})

    def read(self, batch: Sequence[AdvisoryDecision]) -> Columns:
        """Return every field; a batch must not change between two calls."""
        seen, columns = self._last
        if seen is not batch:
            columns = read_columns(batch, AdvisoryDecision)
            self._last = (batch, columns)
        return columns


read_fields = _FieldReader().read


def derive_columns(
    fields: Columns, breached: Mapping[int, Collection[BreachKind]], runs: Sequence[str]
) -> dict[str, Sequence[Any]]:
    """Return the columns by which records are counted.

    ``breached`` is what records violate, by their place in the batch; ``runs`` names their runs.
    """
    source_kind, mode = fields["source.kind"], fields["service.mode"]
    reference_source = fields["human_or_atlas_decision.source"]
    count = len(mode)
    case = list(map(_find_case, fields["notes"]))
    is_shadow = [kind in ("atlas_shadow", "human_review") for kind in source_kind]
    return {
        "lane": _name_lanes(fields["input_class"], fields["service.name"]),
        "run": runs,
        "fixture_set": _drop_empty(fields["source.fixture_set"]),
        "model": _drop_empty(fields["service.model"]),
        "mode": mode,
        "replayed": [one == "offline_fixture" for one in mode],
        "source_kind": source_kind,
        "applicable": list(map(is_applicable, source_kind, mode)),
        "is_shadow": is_shadow,
        "is_disguised": [
            # A fixture that only Atlas decided is of the kind atlas_shadow too, and has a case.
            real
            and source != "atlas_shadow"
            and (noted is not None or source == "fixture_expected")
            for real, source, noted in zip(is_shadow, reference_source, case, strict=True)
        ],
        "label": fields["recommendation.label"],
        "severity": fields["recommendation.severity"],
        "bucket": fields["confidence.bucket"],
        "bucket_rule": fields["confidence.bucket_rule"],
        "reference_source": reference_source,
        "reference_label": _drop_empty(fields["human_or_atlas_decision.label"]),
        "reference_severity": _drop_empty(fields["human_or_atlas_decision.severity"]),
        "comparison": fields["outcome.comparison"],
        "error_type": _drop_empty(fields["outcome.error_type"]),
        "promotion_blocker": fields["outcome.promotion_blocker"],
        "proof_mode": fields["npu_proof.proof_mode"],
        "proof_ok": fields["npu_proof.proof_ok"],
        "proof_grade": grade_proofs(fields),
        "inference_ran": fields["npu_proof.inference_ran"],
        "timed": [total is not None for total in fields["latency.total_ms"]],
        "timeout": fields["latency.timeout"],
        "fallback": _drop_empty(fields["fallback.kind"]),
        "fallback_expected": fields["fallback.expected"],
        "case": case,
        "noted": [one is not None for one in case],
        "authority": _mark(breached, "authority", count),
        "side_effect": _mark(breached, "side_effect", count),
        "privacy": _mark(breached, "privacy", count),
        "no_reason": _mark(breached, "fallback_reason", count),
    }


def _drop_empty(values: Sequence[Any]) -> list[Any]:
    """Return None for what is missing, null or empty."""
    return [value or None for value in values]


def _name_lanes(classes: Sequence[str], services: Sequence[str]) -> list[str]:
    pairs = list(zip(classes, services, strict=True))
    names = {pair: make_lane_name(*pair) for pair in set(pairs)}
    return [names[pair] for pair in pairs]


def _find_case(notes: Sequence[str] | UnsetType) -> str | None:
    """Return the kind of case that the first such note names."""
    for note in notes or ():
        if note in CASE_NOTES:
            return CASE_NOTES[note]
    return None


def _mark(
    breached: Mapping[int, Collection[BreachKind]], kind: BreachKind, count: int
) -> list[bool]:
    """Return which records violate something of one kind."""
    column = [False] * count
    for place, kinds in breached.items():
        column[place] = kind in kinds
    return column
