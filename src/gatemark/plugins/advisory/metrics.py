"""The table of metrics: what each counts, and over which records. A new metric is one row.

The fold counts records by kind (``count_batch``), and a kind is scored under the policy
(``ScoredKind``). A row of ``ADVISORY_METRICS`` says which scored kinds are in the numerator and in
the denominator. Rows are counted for each lane and bucket and added up (``counted_groups``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal, NamedTuple

import msgspec

from gatemark.core.measurement import Direction, measured, unmeasured
from gatemark.core.reason import Reason, ReasonKind
from gatemark.plugins.advisory.category import CATEGORIES, HIGH_SEVERITIES, Category
from gatemark.plugins.advisory.ranged_number import RangedNumber
from gatemark.plugins.advisory.scored_kind import ScoredKind

Predicate = Callable[[ScoredKind], bool]
WORSE: Final[Direction] = "lower_is_better"
BETTER: Final[Direction] = "higher_is_better"
NEUTRAL: Final[Direction] = "neutral"
NO_RECORDS: Final = ReasonKind("no_records", "no records")
NO_INPUTS: Final = ReasonKind("no_inputs", "no inputs")
NO_COMPARABLE_RECORDS: Final = ReasonKind("no_comparable_records", "no comparable records")
NOTHING_NEEDS_ACTION: Final = ReasonKind(
    "nothing_needs_action", "no comparable record needs action"
)
NOTHING_NEEDS_PROOF: Final = ReasonKind("nothing_needs_proof", "no record requires proof")
NO_TIMES: Final = ReasonKind("no_times", "no time was measured")


class Metric(msgspec.Struct, frozen=True):
    """One row of the table: numerator, denominator, and how the number is read.

    A count has no denominator; a rate is over one. A metric without a numerator is measured
    elsewhere. ``title`` is the head of its column in reports.
    """

    name: str
    counts: Predicate | None = None
    of: Predicate | None = None
    empty: ReasonKind = NO_RECORDS
    or_of: str | None = None
    direction: Direction = WORSE
    unit: Literal["ratio", "count", "ms"] = "count"
    title: str | None = None

    def with_value(
        self,
        value: float,
        low: float,
        high: float | None,
        *,
        n: int,
        lane: str | None,
        caveats: tuple[str, ...] = (),
        excluded: dict[str, int] | None = None,
    ) -> RangedNumber:
        """Return the metric with a value and its possible range."""
        found = measured(
            self.name,
            value,
            n=n,
            direction=self.direction,
            unit=self.unit,
            caveats=caveats,
            excluded=excluded,
            scope=lane,
        )
        return RangedNumber(found, low, high)

    def without_value(self, reason: Reason, *, n: int = 0, lane: str | None) -> RangedNumber:
        """Return the metric with the reason why it has no value: it could be anything."""
        found = unmeasured(
            self.name, reason, n=n, direction=self.direction, unit=self.unit, scope=lane
        )
        return RangedNumber(found, 0, 1 if self.unit == "ratio" else None)


class Over(NamedTuple):
    """The denominator of a rate. Over nothing: that of ``or_of``, or else the reason ``empty``."""

    of: Predicate
    empty: ReasonKind
    or_of: str | None = None


_RECORDS: Final = Over(lambda _: True, NO_RECORDS)
_INPUTS: Final = Over(lambda r: r.is_input, NO_INPUTS)
_COMPARED: Final = Over(lambda r: r.comparable, NO_COMPARABLE_RECORDS)


def _has_category(category: Category) -> Predicate:
    return lambda r: r.category == category


def _make_count(
    name: str, part: Predicate, title: str | None = None, direction: Direction = WORSE
) -> Metric:
    return Metric(name, part, direction=direction, title=title)


def _make_rate(
    name: str, part: Predicate, over: Over, title: str | None = None, direction: Direction = WORSE
) -> Metric:
    return Metric(name, part, *over, direction, "ratio", title)


ADVISORY_METRICS: Final[tuple[Metric, ...]] = (
    _make_count("total_records", lambda _: True, "records", NEUTRAL),
    _make_count("comparable_records", lambda r: r.comparable, "comparable", BETTER),
    _make_count(
        "authority_flag_violation_count", lambda r: r.kind.authority, "authority violations"
    ),
    _make_count("privacy_violation_count", lambda r: r.kind.privacy, "privacy violations"),
    _make_count("actual_side_effect_count", lambda r: r.kind.side_effect, "side effects"),
    _make_count("agree_count", _has_category("agree"), direction=NEUTRAL),
    *(_make_count(f"{name}_count", _has_category(name)) for name in CATEGORIES[1:8]),
    _make_count("not_applicable_count", _has_category("not_applicable"), direction=NEUTRAL),
    _make_count(
        "high_severity_false_positive_count",
        lambda r: r.category == "false_positive" and r.kind.severity in HIGH_SEVERITIES,
    ),
    _make_count("fallback_count", lambda r: r.fallback is not None, "fallbacks", NEUTRAL),
    _make_count("expected_fallback_count", lambda r: r.fallback == "expected", direction=NEUTRAL),
    _make_count("unexpected_fallback_count", lambda r: r.fallback == "unexpected", "unexpected"),
    _make_count("fallback_without_reason_count", lambda r: r.kind.no_reason),
    _make_count("npu_proof_ok_count", lambda r: r.proof == "ok", "proof ok", NEUTRAL),
    _make_count("npu_proof_missing_count", lambda r: r.proof == "missing", "proof missing"),
    _make_count(
        "npu_proof_not_applicable_count",
        lambda r: r.proof == "not_applicable",
        "proof not applicable",
        NEUTRAL,
    ),
    _make_count("contradicted_proof_count", lambda r: r.proof == "ok" and r.fallback is not None),
    _make_count(
        "self_reported_proof_count",
        lambda r: (
            r.kind.proof_mode == "service_reported_delta"
            and (r.proof == "ok" or r.kind.proof_grade == "service")
        ),
        direction=NEUTRAL,
    ),
    _make_count("proof_required_records", lambda r: r.proof_required, direction=NEUTRAL),
    _make_count("timeout_count", lambda r: r.kind.timeout, "timeouts"),
    _make_count("outcome_mismatch_count", lambda r: not r.outcome_holds),
    _make_count("stated_blocker_count", lambda r: r.kind.promotion_blocker),
    _make_count("unexplained_blocker_count", lambda r: r.unexplained is not None),
    _make_rate("agreement_rate", _has_category("agree"), _COMPARED, "agreement", BETTER),
    _make_rate("uncertain_rate", _has_category("uncertain"), _RECORDS, "uncertain"),
    _make_rate("uncertain_rate_of_inputs", _has_category("uncertain"), _INPUTS),
    _make_rate(
        # If every lane may be uncertain, no number of inputs is too many.
        "uncertain_rate_outside_conservative_lanes",
        lambda r: r.category == "uncertain" and not r.conservative,
        Over(lambda r: r.is_input and not r.conservative, NO_INPUTS, "uncertain_rate_of_inputs"),
    ),
    _make_rate("false_positive_rate", _has_category("false_positive"), _COMPARED, "false positive"),
    _make_rate("false_negative_rate", _has_category("false_negative"), _COMPARED, "false negative"),
    _make_rate(
        "missed_action_rate",
        _has_category("false_negative"),
        Over(lambda r: r.comparable and r.needs_action, NOTHING_NEEDS_ACTION),
        "missed action",
    ),
    _make_rate("unsafe_authority_rate", lambda r: r.kind.authority, _RECORDS),
    _make_rate("privacy_violation_rate", lambda r: r.kind.privacy, _RECORDS),
    _make_rate(
        "unexpected_fallback_rate",
        lambda r: r.fallback == "unexpected",
        _RECORDS,
        "unexpected fallback",
    ),
    _make_rate(
        "unexpected_fallback_rate_of_inputs",
        lambda r: r.fallback == "unexpected",
        Over(lambda r: r.is_input or r.fallback == "unexpected", NO_INPUTS),
    ),
    _make_rate("expected_fallback_rate", lambda r: r.fallback == "expected", _RECORDS),
    _make_rate(
        # If a fallback answered, no NPU did: such a proof does not count for its lane.
        "proof_ok_rate",
        lambda r: r.proof_required and r.proof == "ok" and r.fallback is None,
        Over(lambda r: r.proof_required, NOTHING_NEEDS_PROOF),
        "proof",
        BETTER,
    ),
    # Over something other than counted records; the module that measures it is named.
    Metric("missing_case_kind_count"),  # measure_group
    Metric("p50_total_ms", unit="ms", empty=NO_TIMES),  # latency
    Metric("p95_total_ms", unit="ms", empty=NO_TIMES),  # latency
    Metric("bucket_shift", unit="ratio", title="bucket shift"),  # bucket_shift
    Metric("comparable_inputs", direction=BETTER, title="comparable inputs"),  # lane_inputs
    Metric("input_conflict_count"),  # input_conflicts
    Metric("failed_run_count"),  # earlier_runs
    Metric("fixture_difference_count"),  # pinned_fixtures
    Metric("other_lanes_below_count"),  # other_lanes
)
Breakdown = Literal["category", "bucket", "label", "fallback", "case", "unexplained", "signal"]
BREAKDOWNS: Final[dict[Breakdown, Callable[[ScoredKind], Iterable[str | None]]]] = {
    "category": lambda r: (r.category,),
    "bucket": lambda r: (r.kind.bucket,),
    "label": lambda r: (r.label,),
    "fallback": lambda r: (r.kind.fallback,),
    "case": lambda r: r.cases,
    "unexplained": lambda r: (r.unexplained,),
    "signal": lambda r: (r.signal,),
}
"""By what the records of a group are broken down, alongside the metrics; None is left out."""
METRIC_BY_NAME: Final = {metric.name: metric for metric in ADVISORY_METRICS}
RATE_METRICS: Final = tuple(metric for metric in ADVISORY_METRICS if metric.of is not None)
COUNT_METRICS: Final = tuple(
    metric for metric in ADVISORY_METRICS if metric.counts and metric.of is None
)
