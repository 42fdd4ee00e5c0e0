"""Counts by group, made from counted kinds under a policy.

A group is a tuple: everything, a lane, a bucket, a lane's bucket, a run's lane, and so on. Each
holds plain counts by name; rates and rules read nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from gatemark.exams.advisory.categories import (
    BUCKETS,
    CATEGORIES,
    COMPARABLE,
    HIGH_SEVERITIES,
    SEVERITIES,
    UNCERTAIN_BUCKETS,
    Category,
    CategoryKey,
    Taxonomy,
    category_of,
    is_applicable,
    is_stated,
    lane_name,
    signal_of,
)
from gatemark.exams.advisory.facts import Kind
from gatemark.exams.advisory.policy import AdvisoryPolicy, LaneBounds
from gatemark.exams.advisory.profile import AUTHORITY, NO_REASON, PRIVACY, SIDE_EFFECT
from gatemark.exams.advisory.state import AdvisoryExamState

Group = tuple[str, ...]
Counts = dict[str, int]
Tally = dict[Group, Counts]
Numbers = npt.NDArray[np.int64]

ALL: Final[Group] = ("all",)
MEASURED_PROOF: Final = frozenset(("sysfs_busy_delta", "service_reported_delta"))
_NOTABLE: Final = frozenset(SEVERITIES[2:])


def tallied(state: AdvisoryExamState, policy: AdvisoryPolicy) -> Tally:
    """The counts of every group of a settled state, none of whose labels is in doubt."""
    lanes = [lane_name(*key) for key in state.lanes]
    table = _Table(lanes, policy)
    for values, counts in state.kinds.items():
        table.add(Kind(*values), counts)  # type: ignore[arg-type]
    tally = table.tally()
    for number, cases in state.cases.items():
        for group in (ALL, ("lane", lanes[number])):
            for case, count in cases.items():
                _add(tally[group], f"case.{case}", count)
    for (input_class, service), lane in zip(state.lanes, lanes, strict=True):
        records = tally.get(("lane", lane), {}).get("records", 0)
        if records:
            _add(tally.setdefault(("class", input_class), {}), "records", records)
            _add(tally.setdefault(("service", service), {}), "records", records)
    for name, count in state.fixture_sets.items():
        tally["set", name] = {"records": count}
    for run, by_lane in state.runs.items():
        for number, buckets in by_lane.items():
            tally["run", run, lanes[number]] = dict(buckets)
    return tally


class _Table:
    """Lanes by kinds, and kinds by names; the product of the two counts names by lane.

    What a kind is counted as depends on the policy of its lane, so lanes that share a taxonomy
    and bounds share the rows of a kind.
    """

    def __init__(self, lanes: Sequence[str], policy: AdvisoryPolicy) -> None:
        self._lanes = lanes
        self._policies = [(policy.taxonomy(lane), policy.bounds(lane)) for lane in lanes]
        self._same = [self._policies.index(own) for own in self._policies]
        self._rows: dict[tuple[int, int], int] = {}
        self._names: list[set[str]] = []
        self._buckets: list[str] = []
        self._cells: list[tuple[int, int, int]] = []
        self._kinds = 0

    def add(self, kind: Kind, counts: Mapping[int, int]) -> None:
        """Count the records of one kind by the numbers of their lanes."""
        self._kinds += 1
        for lane, count in counts.items():
            key = (self._kinds, self._same[lane])
            row = self._rows.get(key)
            if row is None:
                row = self._rows[key] = len(self._names)
                self._names.append(_names(kind, *self._policies[lane]))
                self._buckets.append(kind.bucket)
            self._cells.append((lane, row, count))

    def tally(self) -> Tally:
        """Everything, every lane, every bucket, and every lane's buckets."""
        names = sorted({name for row in self._names for name in row})
        places = {name: place for place, name in enumerate(names)}
        counted: Numbers = np.zeros((len(self._names), len(names)), dtype=np.int64)
        for number, row in enumerate(self._names):
            counted[number, [places[name] for name in row]] = 1
        cells: Numbers = np.zeros((len(self._lanes), len(self._names)), dtype=np.int64)
        for place, number, count in self._cells:
            cells[place, number] += count
        tally: Tally = {ALL: _named(names, cells.sum(axis=0) @ counted)}
        by_lane = cells @ counted
        kept = [name for name in names if name == "records" or name.startswith("category.")]
        some = counted[:, [places[name] for name in kept]]
        for bucket in BUCKETS:
            own = np.array([bucket == found for found in self._buckets], dtype=bool)
            if not own.any():
                continue
            tally["bucket", bucket] = _named(names, cells[:, own].sum(axis=0) @ counted[own])
            for lane, found in zip(self._lanes, cells[:, own] @ some[own], strict=True):
                if found.any():
                    tally["lane_bucket", lane, bucket] = _named(kept, found)
        for lane, found in zip(self._lanes, by_lane, strict=True):
            if found.any():
                tally["lane", lane] = _named(names, found)
        return tally


def _named(names: Iterable[str], counts: Numbers) -> Counts:
    return {name: count for name, count in zip(names, counts.tolist(), strict=True) if count}


def needs_strict_pass(
    state: AdvisoryExamState, policy: AdvisoryPolicy, checked_rules: frozenset[str]
) -> bool:
    """Whether a label or bucket rule must be explained before its records count."""
    known = [policy.taxonomy(lane_name(*key)) for key in state.lanes]
    explained = [{*taxonomy.labels, *taxonomy.aliases, None} for taxonomy in known]
    for values, counts in state.kinds.items():
        kind = Kind(*values)  # type: ignore[arg-type]
        if kind.bucket_rule not in checked_rules:
            return True
        labels = {kind.label, kind.reference_label}
        if not all(labels <= explained[lane] for lane in counts):
            return True
    return False


def added(left: Tally, right: Tally) -> Tally:
    """Both tallies as one."""
    total = {group: dict(counts) for group, counts in left.items()}
    for group, counts in right.items():
        into = total.setdefault(group, {})
        for name, count in counts.items():
            into[name] = into.get(name, 0) + count
    return total


def compared(kind: Kind) -> CategoryKey:
    """The parts of a kind that decide its category."""
    return CategoryKey(
        label=kind.label,
        severity=kind.severity,  # type: ignore[arg-type]
        bucket=kind.bucket,  # type: ignore[arg-type]
        reference_source=kind.reference_source,  # type: ignore[arg-type]
        reference_label=kind.reference_label,
        reference_severity=kind.reference_severity,  # type: ignore[arg-type]
        applicable=is_applicable(kind.source_kind, kind.mode),
    )


def _add(counts: Counts, name: str, count: int) -> None:
    counts[name] = counts.get(name, 0) + count


def _names(kind: Kind, taxonomy: Taxonomy, bounds: LaneBounds) -> set[str]:
    """Everything that a record of this kind is counted as."""
    parts = compared(kind)
    category = category_of(parts, taxonomy)
    names = {
        "records",
        f"category.{category}",
        f"bucket.{kind.bucket}",
        f"label.{taxonomy.normal(kind.label)}",
    }
    names |= _comparison_names(kind, category, taxonomy)
    names |= _statement_names(kind, category, taxonomy, bounds)
    names |= _conduct_names(kind, category)
    names |= _proof_names(kind, category, bounds)
    if not kind.noted:
        names |= {f"case.{case}" for case in case_kinds(kind, taxonomy)}
    if kind.reference_source == "atlas_shadow" and parts.applicable:
        names |= {"shadow", f"shadow.{signal_of(parts, taxonomy)}"}
    return names | _input_names(names, category, bounds)


def _input_names(names: set[str], category: Category, bounds: LaneBounds) -> set[str]:
    """What a record adds to rates over inputs. Probes are none: they would water rates down."""
    found = set()
    if category != "not_applicable":
        found.add("input")
        if not bounds.conservative:
            found.add("input_outside_conservative")
            if category == "uncertain":
                found.add("uncertain_outside_conservative")
    if "input" in found or "unexpected_fallback" in names:
        found.add("input_or_unexpected_fallback")
    return found


def _comparison_names(kind: Kind, category: Category, taxonomy: Taxonomy) -> set[str]:
    names = set()
    if category in COMPARABLE:
        names.add("comparable")
        if kind.reference_label is not None and taxonomy.kind(kind.reference_label) == "action":
            names.add("action_needed")
    if category == "false_positive" and kind.severity in HIGH_SEVERITIES:
        names.add("high_severity_false_positive")
    return names


def _statement_names(
    kind: Kind, category: Category, taxonomy: Taxonomy, bounds: LaneBounds
) -> set[str]:
    """What the record's own outcome is worth."""
    names = set()
    if not _says_what_it_shows(kind, category, taxonomy):
        names.add("mismatch")
    if kind.promotion_blocker:
        names.add("stated_blocker")
        if category != "missing_reference" and not _is_judged(kind, bounds):
            names |= {"unexplained_blocker", f"unexplained.{kind.error_type or 'no error named'}"}
    if kind.human_review_required:
        names.add("human_review")
    return names


def _says_what_it_shows(kind: Kind, category: Category, taxonomy: Taxonomy) -> bool:
    """Whether an outcome is borne out by the rest of its record."""
    if kind.error_type == "fallback_unexpected" and kind.fallback is None:
        return False
    if category == "not_applicable" and taxonomy.kind(kind.label) != "deferred":
        # A probe recommends nothing; a recommendation kept out of every rate must be looked at.
        return False
    if is_stated(category, kind.comparison, kind.error_type):
        return True
    if kind.reference_source != "atlas_shadow":
        return False
    signal = signal_of(compared(kind), taxonomy)
    return is_stated(signal, kind.comparison, kind.error_type)


def _is_judged(kind: Kind, bounds: LaneBounds) -> bool:
    """Whether a rule judges the error for which a record says that it blocks."""
    match kind.error_type:
        case None:
            return False
        case "latency_slo_miss":
            return bounds.p95_total_ms_max is not None
        case "npu_proof_missing":
            return bounds.proof_required
        case "fallback_unexpected":
            return kind.fallback is not None
        case _:
            return True


def _conduct_names(kind: Kind, category: Category) -> set[str]:
    bits = {
        "authority": AUTHORITY,
        "side_effect": SIDE_EFFECT,
        "privacy": PRIVACY,
        "fallback_without_reason": NO_REASON,
    }
    names = {name for name, bit in bits.items() if kind.breaches & bit}
    if kind.fallback is not None:
        expected = kind.fallback_expected and kind.error_type != "fallback_unexpected"
        names |= {
            "fallback",
            f"fallback.{kind.fallback}",
            "expected_fallback" if expected else "unexpected_fallback",
        }
    if kind.timeout:
        names.add("timeout")
    if not kind.timed and category != "not_applicable":
        names.add("untimed")
    if kind.error_type == "latency_slo_miss":
        names.add("latency_slo_miss")
    return names


def _proof_names(kind: Kind, category: Category, bounds: LaneBounds) -> set[str]:
    """Proof of an NPU: there, missing, or nothing that could have been proved.

    A record needs a proof when its lane does, or when it claims that one was measured. Where a
    fallback answered, no NPU did: such a proof is counted as stated, but is none for its lane.
    """
    claimed = kind.proof_mode in MEASURED_PROOF and kind.inference_ran
    required = category != "not_applicable" and (bounds.proof_required or claimed)
    stated_missing = kind.error_type == "npu_proof_missing"
    if kind.proof_ok is True and not stated_missing:
        names = {"proof.ok"}
    elif required or kind.proof_ok is False or stated_missing:
        names = {"proof.missing"}
    else:
        names = {"proof.not_applicable"}
    if required or stated_missing:
        names.add("proof_required")
        if "proof.ok" in names and kind.fallback is None:
            names.add("proof_required_ok")
    if "proof.ok" in names:
        if kind.fallback is not None:
            names.add("contradicted_proof")
        if kind.proof_mode == "service_reported_delta":
            names.add("self_reported_proof")
    return names


def case_kinds(kind: Kind, taxonomy: Taxonomy) -> set[str]:
    """Which of the four kinds of cases a record stands for when no note ``case:KIND`` says so.

    The fields tell as far as they can: an unsure bucket; a reference that calls for action; one
    that calls for none although somebody saw something notable in it; and one in which nobody
    did.
    """
    kinds = set()
    if kind.bucket in UNCERTAIN_BUCKETS:
        kinds.add("low_confidence")
    if kind.reference_label is None or kind.reference_source in ("missing", "atlas_shadow"):
        return kinds
    reference = taxonomy.kind(kind.reference_label)
    if reference == "action":
        kinds.add("action_needed")
    elif reference == "no_op":
        alarmed = taxonomy.kind(kind.label) == "action" or kind.severity in _NOTABLE
        if alarmed or kind.reference_severity in _NOTABLE:
            kinds.add("false_alarm")
        elif kind.bucket not in UNCERTAIN_BUCKETS:
            kinds.add("normal")
    return kinds


def categories(counts: Mapping[str, int]) -> dict[str, int]:
    """The nine categories of a group; they add up to its records."""
    return {category: counts.get(f"category.{category}", 0) for category in CATEGORIES}
