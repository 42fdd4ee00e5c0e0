"""The figures of an advisory run: tables by lane, and the picture of its buckets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gatemark.core.measurement import Measurement
from gatemark.core.result import Cell, Figure, Stack, Stacks, Table
from gatemark.plugins.advisory.category import CATEGORIES
from gatemark.plugins.advisory.confidence_buckets import BUCKETS
from gatemark.plugins.advisory.findings import Findings
from gatemark.plugins.advisory.metrics import METRIC_BY_NAME
from gatemark.plugins.advisory.summary_facts import summarize_bucket
from gatemark.report.words import NOT_MEASURED
from gatemark.statistics.quantiles import Times

SHOWN_LANES: Final = 200
DRAWN_LANES = 20
_TABLES = {
    "Lanes by metrics": (
        "total_records",
        "comparable_records",
        "agreement_rate",
        "uncertain_rate",
        "false_positive_rate",
        "false_negative_rate",
        "missed_action_rate",
    ),
    "Lanes by inputs, fallbacks, proof and stability": (
        "comparable_inputs",
        "unexpected_fallback_rate",
        "proof_ok_rate",
        "bucket_shift",
    ),
    "Fallbacks, proof and conduct": (
        "fallback_count",
        "unexpected_fallback_count",
        "timeout_count",
        "npu_proof_ok_count",
        "npu_proof_missing_count",
        "npu_proof_not_applicable_count",
        "authority_flag_violation_count",
        "privacy_violation_count",
        "actual_side_effect_count",
    ),
}
"""The tables that have a row per lane, and their metrics."""


def draw_figures(found: Findings) -> tuple[Figure, ...]:
    """Return all figures of an advisory run; tables without rows are left out."""
    lanes, further, conduct = (_make_lane_table(found, title) for title in _TABLES)
    before = (lanes, further, _make_category_table(found), _make_bucket_table(found))
    after = (
        _make_latency_table(found),
        conduct,
        _make_other_lanes_table(found),
        _make_violations_table(found),
        _make_wrong_table(found),
    )
    return (
        *(table for table in before if table.rows),
        *_draw_buckets(found),
        *(table for table in after if table.rows),
    )


def make_table(title: str, columns: tuple[str, ...], rows: tuple[tuple[Cell, ...], ...]) -> Table:
    """Return a table with its first rows and the number of all."""
    return Table(title, columns, rows[:SHOWN_LANES], total_rows=len(rows))


def _make_lane_table(found: Findings, title: str) -> Table:
    names = _TABLES[title]
    rows = tuple(
        (lane, *(_show_number(found.get_measurement(name, lane)) for name in names))
        for lane in found.lanes[:SHOWN_LANES]
    )
    columns = ("lane", *(METRIC_BY_NAME[name].title or name for name in names))
    return Table(title, columns, rows, total_rows=len(found.lanes))


def _show_number(number: Measurement) -> Cell:
    if number.value is None:
        return NOT_MEASURED
    return int(number.value) if number.unit == "count" else number.value


def _make_category_table(found: Findings) -> Table:
    """Return one category per record; each row adds up to its records."""
    counts = [(lane, found.counts.lanes[lane]) for lane in found.lanes[:SHOWN_LANES]]
    if counts:
        counts.append(("all lanes", found.counts.all))
    columns = ("lane", *(name.replace("_", " ") for name in CATEGORIES), "records")
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, *own.categories.values(), own.records) for name, own in counts
    )
    return Table("Categories", columns, rows, total_rows=len(found.lanes) + bool(rows))


def _make_bucket_table(found: Findings) -> Table:
    """Return how records are distributed over the buckets, and how often each is right."""
    total = found.counts.all.records
    rows = []
    for bucket in BUCKETS if total else ():
        own = summarize_bucket(found.counts.get_bucket(bucket))
        rate = NOT_MEASURED if own["agreement_rate"] is None else own["agreement_rate"]
        rows.append(
            (bucket, own["records"], own["records"] / total, own["comparable_records"], rate)
        )
    columns = ("bucket", "records", "share", "comparable", "agreement")
    return make_table("Confidence buckets", columns, tuple(rows))


def _draw_buckets(found: Findings) -> Iterator[Stacks]:
    """Yield how confident each lane was; nothing if the picture would be too tall."""
    if 0 < len(found.lanes) <= DRAWN_LANES:
        yield Stacks(
            title="Confidence buckets by lane",
            axis="records",
            parts=BUCKETS,
            bars=tuple(
                Stack(
                    lane,
                    tuple(
                        float(found.counts.get_bucket(bucket, lane).records) for bucket in BUCKETS
                    ),
                )
                for lane in found.lanes
            ),
        )


def _make_latency_table(found: Findings) -> Table:
    times = found.times
    parts = [
        ("everything", "", times.all),
        *(("service", name, own) for name, own in times.services.items()),
        *(("input class", name, own) for name, own in times.classes.items()),
        *(("lane", name, own) for name, own in times.lanes.items()),
    ]
    return Table(
        "Total time in milliseconds (percentile_disc)",
        ("of", "name", "timed records", "p50", "p95", "bound"),
        tuple(_make_latency_row(found, *part) for part in parts[:SHOWN_LANES]),
        total_rows=len(parts),
    )


def _make_latency_row(found: Findings, kind: str, name: str, times: Times) -> tuple[Cell, ...]:
    percentiles = (times.percentile(50), times.percentile(95))
    shown = (NOT_MEASURED if value is None else value for value in percentiles)
    bound = found.policy.bounds(name).p95_total_ms_max if kind == "lane" else None
    stated = "none stated" if bound is None else f"p95 <= {bound:g}"
    return (kind, name or "all records", times.n, *shown, stated)


def _make_other_lanes_table(found: Findings) -> Table:
    rows = tuple(
        (lane, ", ".join(fared.broken) or "none", ", ".join(fared.open) or "none")
        for lane, fared in found.other_lanes.items()
    )
    title = "Lanes the policy does not name, by the default bounds"
    return make_table(title, ("lane", "beyond a bound", "could not be judged"), rows)


def _make_violations_table(found: Findings) -> Table:
    """Return violations by id and field, never their content."""
    rows = tuple((hit.decision_id, hit.field, hit.kind) for hit in found.violations)
    total = sum(found.violation_counts.values())
    return Table(
        "Violations", ("decision", "field", "kind"), rows, total_rows=max(total, len(rows))
    )


def _make_wrong_table(found: Findings) -> Table:
    """Return the records to look at, worst first."""
    wrong = found.wrong
    rows = tuple(
        (
            one.decision_id,
            one.fixture_id or "none",
            one.lane,
            one.problem.replace("_", " "),
            one.expected or "none",
            one.given,
        )
        for one in wrong.worst
    )
    return Table(
        "Records to look at, worst first",
        ("decision", "fixture", "lane", "problem", "expected", "given"),
        rows,
        total_rows=max(wrong.total, len(rows)),
    )
