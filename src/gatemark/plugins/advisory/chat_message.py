"""The summary of a run as a message for chat programs, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gatemark.report import words
from gatemark.report.markdown import format_code

MESSAGE_CHARS_MAX: Final = 2_000
"""Maximum length of a message on Discord; Telegram and Slack allow more."""
_LINE_CHARS_MAX: Final = 180
_SHOWN: Final = ((12, 6, 5), (8, 5, 4), (6, 4, 3), (6, 3, 2), (4, 2, 1), (2, 1, 1), (1, 0, 0))
"""How many lanes, blockers and caveats are shown; fewer until the message fits."""
_LAST_LINE: Final = "No authority is granted by this run."


def render_message(summary: Mapping[str, Any]) -> bytes:
    """Return the message; what does not fit is counted, never silently dropped."""
    text = ""
    for lanes, blockers, caveats in _SHOWN:
        text = "\n".join(_render_lines(summary, lanes, blockers, caveats)) + "\n"
        if len(text) <= MESSAGE_CHARS_MAX:
            return text.encode()
    # Names may be so long that even one of each does not fit.
    room = MESSAGE_CHARS_MAX - len(_LAST_LINE) - 3
    return f"{text[:room]}\u2026\n{_LAST_LINE}\n".encode()


def _render_lines(
    summary: Mapping[str, Any], lanes: int, blockers: int, caveats: int
) -> Iterator[str]:
    promotion = summary["promotion"]
    word = words.VERDICT_WORDS[summary["verdict"]]
    yield f"**{word}** advisory dry run, {summary['total_records']:,} records"
    runs, fixtures = _list_names(summary["run_ids"], 3), _list_names(summary["fixture_sets"], 3)
    yield f"- run: {runs}; fixtures: {fixtures}"
    policy = format_code(summary["advisory_policy_digest"][:19])
    yield f"- generated at {summary['generated_at']}; policy {policy}"
    yield ""
    yield "**Lanes**"
    yield from _cut_lines(
        [
            _render_lane(name, lane, promotion["lanes"][name]["status"].partition(":")[0])
            for name, lane in summary["lanes"].items()
        ],
        lanes,
        "lane",
    )
    yield f"**Promotion blockers** ({len(promotion['blockers'])})"
    yield from _cut_lines(
        [_make_bullet(text) for text in promotion["blockers"]], blockers, "blocker"
    )
    wrong = summary["wrong_records"]
    yield f"**Records to look at** ({wrong['total']:,}), worst first"
    lines = [_render_wrong(record) for record in wrong["worst"][:caveats]]
    yield from lines or ["- none"]
    if wrong["total"] > len(lines):
        yield f"- and {wrong['total'] - len(lines):,} more; summary.json lists the worst 100"
    yield "**Numbers**"
    yield f"- {_render_comparison(summary)}"
    yield f"- buckets: {_list_nonzero(summary['confidence_bucket_counts'])}"
    yield f"- {_render_fallbacks(summary)}"
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
    yield f"**Caveats** ({len(promotion['caveats'])})"
    yield from _cut_lines([_make_bullet(text) for text in promotion["caveats"]], caveats, "caveat")
    candidates = promotion["candidate_lanes"]
    yield f"**Candidates for discussion**: {_list_names(candidates, 6)}"
    yield _LAST_LINE


def _render_lane(name: str, lane: Mapping[str, Any], status: str) -> str:
    latency = lane["latency"]
    low_high = lane["intervals"].get("agreement_rate")
    within = "" if low_high is None else f" ({low_high[0]:.2f} to {low_high[1]:.2f})"
    return (
        f"- {format_code(name)} {status}: {lane['total_records']:,} records, "
        f"agreement {_format_rate(lane['rates']['agreement_rate'])}{within}, "
        f"uncertain {_format_rate(lane['rates']['uncertain_rate'])}, "
        f"p95 {_format_ms(latency['p95'])}"
    )


def _render_wrong(record: Mapping[str, Any]) -> str:
    fixture = record["fixture_id"] or "no fixture"
    return _make_bullet(
        f"{record['problem']} {fixture} ({record['decision_id']}): expected "
        f"{record['expected'] or 'nothing'}, given {record['given']}"
    )


def _render_comparison(summary: Mapping[str, Any]) -> str:
    rate = _format_rate(summary["rates"]["agreement_rate"])
    return (
        f"agree {summary['agree_count']:,}, disagree {summary['disagree_count']:,}, "
        f"uncertain {summary['uncertain_count']:,}, "
        f"false positive {summary['false_positive_count']:,}, "
        f"false negative {summary['false_negative_count']:,}, "
        f"missing reference {summary['missing_reference_count']:,}; agreement rate {rate}"
    )


def _render_fallbacks(summary: Mapping[str, Any]) -> str:
    kinds = _list_nonzero(summary["fallback_counts_by_kind"])
    return (
        f"fallbacks: {summary['fallback_count']:,} "
        f"({summary['unexpected_fallback_count']:,} unexpected; {kinds}); "
        f"timeouts: {summary['timeout_count']:,}"
    )


def _list_nonzero(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items() if count) or "none"


def _make_bullet(text: str) -> str:
    """Return a line as code, so that chat programs do not format it or mention anyone."""
    line = words.shortened(words.one_line(text).replace("`", "'"), _LINE_CHARS_MAX)
    return f"- `{line}`"


def _cut_lines(lines: Sequence[str], most: int, noun: str) -> Iterator[str]:
    yield from lines[:most] or ["- none"]
    if len(lines) > most:
        yield f"- and {words.counted(len(lines) - most, f'more {noun}')}"


def _list_names(names: Sequence[str], most: int) -> str:
    return words.first_few([format_code(name) for name in names], most) or "none"


def _format_rate(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"


def _format_ms(value: float | None) -> str:
    return "n/a" if value is None else f"{value:,.1f} ms"
