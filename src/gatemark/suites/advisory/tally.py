"""Counts by group, made from counted cells under a policy.

A group is a tuple: everything, a lane, a bucket, a lane's bucket, a run's lane, and so on. Each
holds plain counts by name; rates and rules read nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gatemark.core.advisory import (
    CATEGORIES,
    COMPARABLE,
    HIGH_SEVERITIES,
    SEVERITIES,
    UNCERTAIN_BUCKETS,
    Category,
    Compared,
    Taxonomy,
    category_of,
    is_applicable,
    is_stated,
    lane_name,
    signal_of,
)
from gatemark.core.advisory_survey import AUTHORITY, NO_REASON, PRIVACY, SIDE_EFFECT
from gatemark.suites.advisory.facts import RUN_PATTERN, Cell, CellTuple
from gatemark.suites.advisory.policy import AdvisoryPolicy, LaneBounds

Group = tuple[str, ...]
Counts = dict[str, int]
Tally = dict[Group, Counts]

ALL: Final[Group] = ("all",)
DOUBT: Final[Group] = ("doubt",)
MEASURED_PROOF: Final = frozenset(("sysfs_busy_delta", "service_reported_delta"))
_NOTABLE: Final = frozenset(SEVERITIES[2:])


def tallied(cells: Mapping[CellTuple, int], policy: AdvisoryPolicy) -> Tally:
    """The counts of every group. Cells with labels nobody explained are counted as doubts only."""
    tally: Tally = {}
    for values, count in cells.items():
        cell = Cell(*values)  # type: ignore[arg-type]
        lane = lane_name(cell.input_class, cell.service)
        if is_doubtful(cell, policy):
            _add(tally, DOUBT, {"records"}, count)
            continue
        names = _names(cell, policy.taxonomy(lane), policy.bounds(lane))
        for group in (ALL, ("lane", lane), ("bucket", cell.bucket)):
            _add(tally, group, names, count)
        categories = {name for name in names if name == "records" or name.startswith("category.")}
        _add(tally, ("lane_bucket", lane, cell.bucket), categories, count)
        _add(tally, ("class", cell.input_class), {"records"}, count)
        _add(tally, ("service", cell.service), {"records"}, count)
        _add(tally, ("set", cell.fixture_set or ""), {"records"}, count)
        _add(tally, ("run", run_of(cell), lane), {f"bucket.{cell.bucket}"}, count)
    return tally


def is_doubtful(cell: Cell, policy: AdvisoryPolicy) -> bool:
    """Whether a cell needs a closer look: a label or bucket rule that must be explained first."""
    taxonomy = policy.taxonomy(lane_name(cell.input_class, cell.service))
    return not (
        taxonomy.knows(cell.label)
        and (cell.reference_label is None or taxonomy.knows(cell.reference_label))
        and cell.bucket_rule in policy.bucket_rules
    )


def added(left: Tally, right: Tally) -> Tally:
    """Both tallies as one."""
    total = {group: dict(counts) for group, counts in left.items()}
    for group, counts in right.items():
        into = total.setdefault(group, {})
        for name, count in counts.items():
            into[name] = into.get(name, 0) + count
    return total


def run_of(cell: Cell) -> str:
    """The run a record belongs to; empty when it names none."""
    return cell.run if cell.run and RUN_PATTERN.fullmatch(cell.run) else ""


def compared(cell: Cell) -> Compared:
    """The parts of a cell that decide its category."""
    return Compared(
        label=cell.label,
        severity=cell.severity,  # type: ignore[arg-type]
        bucket=cell.bucket,  # type: ignore[arg-type]
        reference_source=cell.reference_source,  # type: ignore[arg-type]
        reference_label=cell.reference_label,
        reference_severity=cell.reference_severity,  # type: ignore[arg-type]
        applicable=is_applicable(cell.source_kind, cell.mode),
    )


def _add(tally: Tally, group: Group, names: set[str], count: int) -> None:
    counts = tally.setdefault(group, {})
    for name in names:
        counts[name] = counts.get(name, 0) + count


def _names(cell: Cell, taxonomy: Taxonomy, bounds: LaneBounds) -> set[str]:
    """Everything that a record of this cell is counted as."""
    parts = compared(cell)
    category = category_of(parts, taxonomy)
    names = {
        "records",
        f"category.{category}",
        f"bucket.{cell.bucket}",
        f"label.{taxonomy.normal(cell.label)}",
    }
    names |= _comparison_names(cell, category, taxonomy)
    names |= _conduct_names(cell, category)
    names |= _proof_names(cell, category, bounds)
    names |= {f"case.{kind}" for kind in case_kinds(cell, taxonomy)}
    if cell.reference_source == "atlas_shadow" and parts.applicable:
        names |= {"shadow", f"shadow.{signal_of(parts, taxonomy)}"}
    if category == "uncertain" and not bounds.conservative:
        names.add("uncertain_outside_conservative")
    return names


def _comparison_names(cell: Cell, category: Category, taxonomy: Taxonomy) -> set[str]:
    names = set()
    if category in COMPARABLE:
        names.add("comparable")
        if cell.reference_label is not None and taxonomy.kind(cell.reference_label) == "action":
            names.add("action_needed")
    if category == "false_positive" and cell.severity in HIGH_SEVERITIES:
        names.add("high_severity_false_positive")
    stated = is_stated(category, cell.comparison, cell.error_type)
    if not stated and cell.reference_source == "atlas_shadow":
        signal = signal_of(compared(cell), taxonomy)
        stated = is_stated(signal, cell.comparison, cell.error_type)
    if not stated:
        names.add("mismatch")
    if cell.promotion_blocker:
        names.add("stated_blocker")
        if cell.error_type is None and category != "missing_reference":
            names.add("unexplained_blocker")
    if cell.human_review_required:
        names.add("human_review")
    return names


def _conduct_names(cell: Cell, category: Category) -> set[str]:
    bits = {
        "authority": AUTHORITY,
        "side_effect": SIDE_EFFECT,
        "privacy": PRIVACY,
        "fallback_without_reason": NO_REASON,
    }
    names = {name for name, bit in bits.items() if cell.breaches & bit}
    if cell.fallback is not None:
        expected = cell.fallback_expected and cell.error_type != "fallback_unexpected"
        names |= {
            "fallback",
            f"fallback.{cell.fallback}",
            "expected_fallback" if expected else "unexpected_fallback",
        }
    if cell.timeout:
        names.add("timeout")
    if not cell.timed and category != "not_applicable":
        names.add("untimed")
    if cell.error_type == "latency_slo_miss":
        names.add("latency_slo_miss")
    return names


def _proof_names(cell: Cell, category: Category, bounds: LaneBounds) -> set[str]:
    """Proof of an NPU: there, missing, or nothing that could have been proved.

    A record needs a proof when its lane does, or when it claims that one was measured.
    """
    claimed = cell.proof_mode in MEASURED_PROOF and cell.inference_ran
    required = category != "not_applicable" and (bounds.proof_required or claimed)
    stated_missing = cell.error_type == "npu_proof_missing"
    if cell.proof_ok is True and not stated_missing:
        names = {"proof.ok"}
    elif required or cell.proof_ok is False or stated_missing:
        names = {"proof.missing"}
    else:
        names = {"proof.not_applicable"}
    if required or stated_missing:
        names.add("proof_required")
        if "proof.ok" in names:
            names.add("proof_required_ok")
    return names


def case_kinds(cell: Cell, taxonomy: Taxonomy) -> set[str]:
    """Which of the four kinds of cases a record stands for.

    The note ``case:KIND`` says so. Without one, the fields do as far as they can: an unsure
    bucket; a reference that calls for action; one that calls for none although somebody saw
    something notable in it; and one in which nobody did.
    """
    if cell.case is not None:
        return {cell.case}
    kinds = set()
    if cell.bucket in UNCERTAIN_BUCKETS:
        kinds.add("low_confidence")
    if cell.reference_label is None or cell.reference_source in ("missing", "atlas_shadow"):
        return kinds
    reference = taxonomy.kind(cell.reference_label)
    if reference == "action":
        kinds.add("action_needed")
    elif reference == "no_op":
        alarmed = taxonomy.kind(cell.label) == "action" or cell.severity in _NOTABLE
        if alarmed or cell.reference_severity in _NOTABLE:
            kinds.add("false_alarm")
        elif cell.bucket not in UNCERTAIN_BUCKETS:
            kinds.add("normal")
    return kinds


def categories(counts: Mapping[str, int]) -> dict[str, int]:
    """The nine categories of a group; they add up to its records."""
    return {category: counts.get(f"category.{category}", 0) for category in CATEGORIES}
