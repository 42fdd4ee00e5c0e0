"""What the report shows of an advisory run: lanes by metrics, buckets, latency, violations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gatemark.core.figure import Cell, Figure, Stack, Stacks, Table
from gatemark.core.measurement import Measurement
from gatemark.exams.advisory.categories import CATEGORIES
from gatemark.exams.advisory.decision import BUCKETS
from gatemark.exams.advisory.findings import Findings
from gatemark.exams.advisory.measure import Times
from gatemark.exams.advisory.metrics import METRIC
from gatemark.report import words
from gatemark.report.markdown import code

SHOWN_LANES = 200
DRAWN_LANES = 20
NOT_MEASURED = "not measured"
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


def figures(found: Findings) -> tuple[Figure, ...]:
    """Everything shown of an advisory run; tables without rows are left out."""
    lanes, further, conduct = (_lane_table(found, title) for title in _TABLES)
    before = (lanes, further, _categories(found), _buckets(found))
    after = (_latency(found), conduct, _other_lanes(found), _violations(found))
    return (
        *(table for table in before if table.rows),
        *_bucket_picture(found),
        *(table for table in after if table.rows),
    )


def _lane_table(found: Findings, title: str) -> Table:
    names = _TABLES[title]
    rows = tuple(
        (lane, *(_shown(found.number(name, lane)) for name in names))
        for lane in found.lanes[:SHOWN_LANES]
    )
    columns = ("lane", *(METRIC[name].title or name for name in names))
    return Table(title, columns, rows, total_rows=len(found.lanes))


def _shown(number: Measurement) -> Cell:
    if number.value is None:
        return NOT_MEASURED
    return int(number.value) if number.unit == "count" else number.value


def _categories(found: Findings) -> Table:
    """One category per record; each row adds up to its records."""
    counts = [(lane, found.counts.lanes[lane]) for lane in found.lanes[:SHOWN_LANES]]
    if counts:
        counts.append(("all lanes", found.counts.all))
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, *own.categories.values(), own.records) for name, own in counts
    )
    extra = 1 if rows else 0
    return Table(
        "Categories",
        ("lane", *(name.replace("_", " ") for name in CATEGORIES), "records"),
        rows,
        total_rows=len(found.lanes) + extra,
    )


def _buckets(found: Findings) -> Table:
    """How records spread over the buckets, and how often each bucket is right."""
    rows = []
    total = found.counts.all.records
    for bucket in BUCKETS:
        counts = found.counts.bucket(bucket)
        records, comparable = counts.records, counts.wholes["agreement_rate"]
        rate: Cell = counts.parts["agreement_rate"] / comparable if comparable else NOT_MEASURED
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
                    tuple(float(found.counts.bucket(bucket, lane).records) for bucket in BUCKETS),
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


MESSAGE_CHARS_MAX: Final = 4_000
_LINE_CHARS_MAX: Final = 220
_SHOWN: Final = ((12, 8, 5), (8, 6, 4), (5, 4, 3), (3, 3, 2), (1, 1, 1))
"""How many lanes, blockers and caveats are shown; fewer until the message fits."""


def render_markdown(summary: Mapping[str, Any]) -> bytes:
    """The message; what does not fit is counted, never dropped in silence."""
    text = ""
    for lanes, blockers, caveats in _SHOWN:
        text = "\n".join(_message_lines(summary, lanes, blockers, caveats)) + "\n"
        if len(text) <= MESSAGE_CHARS_MAX:
            break
    return text.encode()


def _message_lines(
    summary: Mapping[str, Any], lanes: int, blockers: int, caveats: int
) -> Iterator[str]:
    promotion = summary["promotion"]
    word = words.VERDICT_WORDS[summary["verdict"]]
    yield f"**{word}** advisory dry run, {summary['total_records']:,} records"
    runs, fixtures = _listed(summary["run_ids"], 3), _listed(summary["fixture_sets"], 3)
    yield f"- run: {runs}; fixtures: {fixtures}"
    policy = code(summary["advisory_policy_digest"][:19])
    yield f"- generated at {summary['generated_at']}; policy {policy}"
    yield ""
    yield "**Lanes**"
    yield from _shortened(
        [_lane_line(name, lane) for name, lane in summary["lanes"].items()], lanes, "lane"
    )
    yield ""
    yield "**Numbers**"
    yield f"- {_comparison(summary)}"
    yield f"- buckets: {_nonzero(summary['confidence_bucket_counts'])}"
    yield f"- {_fallbacks(summary)}"
    yield (
        f"- NPU proof: {summary['npu_proof_ok_count']:,} ok, "
        f"{summary['npu_proof_missing_count']:,} missing, "
        f"{summary['npu_proof_not_applicable_count']:,} not applicable"
    )
    yield (
        f"- violations: {summary['authority_flag_violation_count']:,} authority, "
        f"{summary['privacy_violation_count']:,} privacy, "
        f"{summary['actual_side_effect_count']:,} side effects"
    )
    yield ""
    yield f"**Promotion blockers** ({len(promotion['blockers'])})"
    yield from _shortened([_bullet(text) for text in promotion["blockers"]], blockers, "blocker")
    yield f"**Caveats** ({len(promotion['caveats'])})"
    yield from _shortened([_bullet(text) for text in promotion["caveats"]], caveats, "caveat")
    candidates = promotion["candidate_lanes"]
    yield f"**Candidates for discussion**: {_listed(candidates, 6)}"
    yield "No authority is granted by this run."


def _lane_line(name: str, lane: Mapping[str, Any]) -> str:
    latency = lane["latency"]
    return (
        f"- {code(name)}: {lane['total_records']:,} records, "
        f"agreement {_rate(lane['rates']['agreement_rate'])}, "
        f"uncertain {_rate(lane['rates']['uncertain_rate'])}, p95 {_milliseconds(latency['p95'])}"
    )


def _comparison(summary: Mapping[str, Any]) -> str:
    rate = _rate(summary["rates"]["agreement_rate"])
    return (
        f"agree {summary['agree_count']:,}, disagree {summary['disagree_count']:,}, "
        f"uncertain {summary['uncertain_count']:,}, "
        f"false positive {summary['false_positive_count']:,}, "
        f"false negative {summary['false_negative_count']:,}, "
        f"missing reference {summary['missing_reference_count']:,}; agreement rate {rate}"
    )


def _fallbacks(summary: Mapping[str, Any]) -> str:
    kinds = _nonzero(summary["fallback_counts_by_kind"])
    return (
        f"fallbacks: {summary['fallback_count']:,} "
        f"({summary['unexpected_fallback_count']:,} unexpected; {kinds}); "
        f"timeouts: {summary['timeout_count']:,}"
    )


def _nonzero(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items() if count) or "none"


def _bullet(text: str) -> str:
    """A line as code: chat programs leave the signs in it alone, and call nobody."""
    line = words.shortened(words.one_line(text).replace("`", "'"), _LINE_CHARS_MAX)
    return f"- `{line}`"


def _shortened(lines: Sequence[str], most: int, noun: str) -> Iterator[str]:
    yield from lines[:most] or ["- none"]
    if len(lines) > most:
        yield f"- and {words.counted(len(lines) - most, f'more {noun}')}"


def _listed(names: Sequence[str], most: int) -> str:
    if not names:
        return "none"
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(code(name) for name in names[:most]) + more


def _rate(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"


def _milliseconds(value: float | None) -> str:
    return "n/a" if value is None else f"{value:,.1f} ms"
