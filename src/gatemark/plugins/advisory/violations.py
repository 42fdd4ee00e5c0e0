"""What records violate: breaches of conduct (``record_rules``) and private texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from gatemark.evidence.columns import Columns
from gatemark.evidence.private_text import PrivateTextScan
from gatemark.evidence.record_rules import RecordRules
from gatemark.plugins.advisory.privacy_scan import find_private_texts
from gatemark.plugins.advisory.record import AdvisoryDecision
from gatemark.plugins.advisory.record_rules import BREACHES, BreachKind


class Violation(NamedTuple):
    """Where a record violates something: by id and field, never by content."""

    decision_id: str
    field: str
    kind: str


class ViolatedField(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A field with violations, and their kind."""

    field: str
    kind: str


class BatchViolations(NamedTuple):
    """The violations of a batch in order, and what records violate by their place in it."""

    listed: list[Violation]
    kinds: Mapping[int, set[BreachKind]]


def find_violations(
    batch: Sequence[AdvisoryDecision], fields: Columns, scan: PrivateTextScan
) -> BatchViolations:
    """Return every violation of a batch; nearly always there is none."""
    found: dict[int, list[Violation]] = {}
    kinds: dict[int, set[BreachKind]] = {}
    if broken := BREACHES.list_broken(fields):
        rules = RecordRules(broken)
        for place, record in enumerate(batch):
            for rule, problem in rules.find_broken(record):
                hit = Violation(record.decision_id, problem.path, rule.kind)
                found.setdefault(place, []).append(hit)
                kinds.setdefault(place, set()).add(rule.kind)
    for place, field, kind in find_private_texts(fields, scan):
        hit = Violation(batch[place].decision_id, field, kind)
        found.setdefault(place, []).append(hit)
        kinds.setdefault(place, set()).add("privacy")
    return BatchViolations([hit for place in sorted(found) for hit in found[place]], kinds)
