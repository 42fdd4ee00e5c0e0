"""What the report shows of an advisory run: lanes by metrics, buckets, latency, violations."""

from __future__ import annotations

from collections.abc import Iterator

from gatemark.core.figure import Cell, Figure, Stack, Stacks, Table
from gatemark.core.measurement import Measurement
from gatemark.exams.advisory.categories import BUCKETS
from gatemark.exams.advisory.findings import Findings
from gatemark.exams.advisory.latency import Times
from gatemark.exams.advisory.tally import ALL, categories

SHOWN_LANES = 200
DRAWN_LANES = 20
NOT_MEASURED = "not measured"
_RECORDS = (("records", "total_records"), ("comparable", "comparable_records"))
_LANE_RATES = (
    ("agreement", "agreement_rate"),
    ("uncertain", "uncertain_rate"),
    ("false positive", "false_positive_rate"),
    ("false negative", "false_negative_rate"),
    ("missed action", "missed_action_rate"),
)
_LANE_OTHERS = (
    ("comparable inputs", "comparable_inputs"),
    ("unexpected fallback", "unexpected_fallback_rate"),
    ("proof", "proof_ok_rate"),
    ("bucket shift", "bucket_shift"),
)


def figures(found: Findings) -> tuple[Figure, ...]:
    """Everything shown of an advisory run; tables without rows are left out."""
    before = (_lanes(found), _lanes_further(found), _categories(found), _buckets(found))
    after = (_latency(found), _conduct(found), _other_lanes(found), _violations(found))
    return (
        *(table for table in before if table.rows),
        *_bucket_picture(found),
        *(table for table in after if table.rows),
    )


def _lanes(found: Findings) -> Table:
    return _lane_table(found, "Lanes by metrics", (*_RECORDS, *_LANE_RATES))


def _lanes_further(found: Findings) -> Table:
    return _lane_table(found, "Lanes by inputs, fallbacks, proof and stability", _LANE_OTHERS)


def _lane_table(found: Findings, title: str, columns: tuple[tuple[str, str], ...]) -> Table:
    rows = []
    for lane in found.lanes[:SHOWN_LANES]:
        values = [found.number(name, lane) for _, name in columns]
        rows.append((lane, *(_shown(number) for number in values)))
    return Table(
        title, ("lane", *(name for name, _ in columns)), tuple(rows), total_rows=len(found.lanes)
    )


def _shown(number: Measurement) -> Cell:
    if number.value is None:
        return NOT_MEASURED
    return int(number.value) if number.unit == "count" else number.value


def _categories(found: Findings) -> Table:
    """One category per record; each row adds up to its records."""
    names = tuple(categories({}))
    rows: list[tuple[Cell, ...]] = [
        (
            lane,
            *categories(found.counts("lane", lane)).values(),
            found.counts("lane", lane)["records"],
        )
        for lane in found.lanes[:SHOWN_LANES]
    ]
    everything = found.tally.get(ALL, {})
    if rows:
        total = (*categories(everything).values(), everything.get("records", 0))
        rows.append(("all lanes", *total))
    extra = 1 if rows else 0
    return Table(
        "Categories",
        ("lane", *(name.replace("_", " ") for name in names), "records"),
        tuple(rows),
        total_rows=len(found.lanes) + extra,
    )


def _buckets(found: Findings) -> Table:
    """How records spread over the buckets, and how often each bucket is right."""
    rows = []
    total = found.counts("all").get("records", 0)
    for bucket in BUCKETS:
        counts = found.counts("bucket", bucket)
        comparable = counts.get("comparable", 0)
        rate: Cell = counts.get("category.agree", 0) / comparable if comparable else NOT_MEASURED
        records = counts.get("records", 0)
        rows.append((bucket, records, records / total if total else 0.0, comparable, rate))
    return Table(
        "Confidence buckets",
        ("bucket", "records", "share", "comparable", "agreement"),
        tuple(rows) if total else (),
        total_rows=len(rows) if total else 0,
    )


def _bucket_picture(found: Findings) -> Iterator[Stacks]:
    """How sure each lane was of its recommendations; nothing where a picture would be too tall."""
    if 0 < len(found.lanes) <= DRAWN_LANES:
        yield Stacks(
            title="Confidence buckets by lane",
            axis="records",
            parts=BUCKETS,
            bars=tuple(
                Stack(
                    lane,
                    tuple(
                        float(found.counts("lane_bucket", lane, bucket).get("records", 0))
                        for bucket in BUCKETS
                    ),
                )
                for lane in found.lanes
            ),
        )


def _latency(found: Findings) -> Table:
    times = found.times
    parts = [
        ("everything", "", times.all),
        *(("service", name, own) for name, own in times.services.items()),
        *(("input class", name, own) for name, own in times.classes.items()),
        *(("lane", name, own) for name, own in times.lanes.items()),
    ]
    rows = [_latency_row(kind, name, own) for kind, name, own in parts[:SHOWN_LANES]]
    return Table(
        "Total time in milliseconds (percentile_disc)",
        ("of", "name", "timed records", "p50", "p95", "bound"),
        tuple((*row, _slo(found, row)) for row in rows),
        total_rows=len(parts),
    )


def _latency_row(kind: str, name: str, times: Times) -> tuple[str, str, int, Cell, Cell]:
    median, tail = times.percentile(50), times.percentile(95)
    return (
        kind,
        name or "all records",
        times.n,
        NOT_MEASURED if median is None else median,
        NOT_MEASURED if tail is None else tail,
    )


def _slo(found: Findings, row: tuple[str, str, int, Cell, Cell]) -> Cell:
    bound = found.policy.bounds(row[1]).p95_total_ms_max if row[0] == "lane" else None
    return "none stated" if bound is None else f"p95 <= {bound:g}"


def _conduct(found: Findings) -> Table:
    """Fallbacks, proof and violations by lane."""
    names = (
        ("fallbacks", "fallback"),
        ("unexpected", "unexpected_fallback"),
        ("timeouts", "timeout"),
        ("proof ok", "proof.ok"),
        ("proof missing", "proof.missing"),
        ("proof not applicable", "proof.not_applicable"),
        ("authority violations", "authority"),
        ("privacy violations", "privacy"),
        ("side effects", "side_effect"),
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (lane, *(found.counts("lane", lane).get(key, 0) for _, key in names))
        for lane in found.lanes[:SHOWN_LANES]
    )
    return Table(
        "Fallbacks, proof and conduct",
        ("lane", *(title for title, _ in names)),
        rows,
        total_rows=len(found.lanes),
    )


def _other_lanes(found: Findings) -> Table:
    rows = tuple(
        (lane, ", ".join(fared.broken) or "none", ", ".join(fared.open) or "none")
        for lane, fared in found.other_lanes.items()
    )
    return Table(
        "Lanes the policy does not name, by the default bounds",
        ("lane", "beyond a bound", "could not be judged"),
        rows[:SHOWN_LANES],
        total_rows=len(rows),
    )


def _violations(found: Findings) -> Table:
    """By id and field; what was found there is never shown."""
    rows = tuple((hit.decision_id, hit.field, hit.kind) for hit in found.violations)
    total = sum(found.violation_counts.values())
    return Table(
        "Violations", ("decision", "field", "kind"), rows, total_rows=max(total, len(rows))
    )
