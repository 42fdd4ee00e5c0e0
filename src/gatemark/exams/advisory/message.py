"""The summary of an advisory run as a message: fits a terminal, Telegram or Discord."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gatemark.report import words
from gatemark.report.markdown import code

MESSAGE_CHARS_MAX: Final = 4_000
_LINE_CHARS_MAX: Final = 220
_SHOWN: Final = ((12, 8, 5), (8, 6, 4), (5, 4, 3), (3, 3, 2), (1, 1, 1))
"""How many lanes, blockers and caveats are shown; fewer until the message fits."""


def render_markdown(summary: Mapping[str, Any]) -> bytes:
    """The message; what does not fit is counted, never dropped in silence."""
    text = ""
    for lanes, blockers, caveats in _SHOWN:
        text = "\n".join(_lines(summary, lanes, blockers, caveats)) + "\n"
        if len(text) <= MESSAGE_CHARS_MAX:
            break
    return text.encode()


def _lines(summary: Mapping[str, Any], lanes: int, blockers: int, caveats: int) -> Iterator[str]:
    promotion = summary["promotion"]
    word = words.VERDICT_WORDS[summary["verdict"]]
    yield f"**{word}** advisory dry run, {summary['total_records']:,} records"
    yield f"- run: {_some(summary['run_ids'], 3)}; fixtures: {_some(summary['fixture_sets'], 3)}"
    policy = code(summary["advisory_policy_digest"][:19])
    yield f"- generated at {summary['generated_at']}; policy {policy}"
    yield ""
    yield "**Lanes**"
    yield from _cut([_lane(name, lane) for name, lane in summary["lanes"].items()], lanes, "lane")
    yield ""
    yield "**Numbers**"
    yield f"- {_comparison(summary)}"
    yield f"- buckets: {_counts(summary['confidence_bucket_counts'])}"
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
    yield from _cut([_bullet(text) for text in promotion["blockers"]], blockers, "blocker")
    yield f"**Caveats** ({len(promotion['caveats'])})"
    yield from _cut([_bullet(text) for text in promotion["caveats"]], caveats, "caveat")
    candidates = promotion["candidate_lanes"]
    yield f"**Candidates for discussion**: {_some(candidates, 6)}"
    yield "No authority is granted by this run."


def _lane(name: str, lane: Mapping[str, Any]) -> str:
    latency = lane["latency"]
    return (
        f"- {code(name)}: {lane['total_records']:,} records, "
        f"agreement {_rate(lane['rates']['agreement_rate'])}, "
        f"uncertain {_rate(lane['rates']['uncertain_rate'])}, p95 {_ms(latency['p95'])}"
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
    kinds = _counts(summary["fallback_counts_by_kind"])
    return (
        f"fallbacks: {summary['fallback_count']:,} "
        f"({summary['unexpected_fallback_count']:,} unexpected; {kinds}); "
        f"timeouts: {summary['timeout_count']:,}"
    )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items() if count) or "none"


def _bullet(text: str) -> str:
    """A line as code: chat programs leave the signs in it alone, and call nobody."""
    line = words.shortened(words.one_line(text).replace("`", "'"), _LINE_CHARS_MAX)
    return f"- `{line}`"


def _cut(lines: Sequence[str], most: int, noun: str) -> Iterator[str]:
    yield from lines[:most] or ["- none"]
    if len(lines) > most:
        yield f"- and {words.counted(len(lines) - most, f'more {noun}')}"


def _some(names: Sequence[str], most: int) -> str:
    if not names:
        return "none"
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(code(name) for name in names[:most]) + more


def _rate(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"


def _ms(value: float | None) -> str:
    return "n/a" if value is None else f"{value:,.1f} ms"
