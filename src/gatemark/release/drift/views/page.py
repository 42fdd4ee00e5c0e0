"""The drift of an asset as one self-contained HTML page."""

from __future__ import annotations

from typing import Final

from gatemark import __version__
from gatemark.core.levels import Level
from gatemark.release.drift.signal import Episode, find_worst
from gatemark.release.drift.views.chart import draw_drift_chart
from gatemark.release.drift.views.views import DriftView, SeriesView
from gatemark.release.lifecycle.decisions.citation import short
from gatemark.report import words
from gatemark.report.pages import page_environment

TEMPLATES: Final = ("gatemark.release.drift.views", "gatemark.release.lifecycle.views")
TONES: Final[dict[Level, str]] = {
    "OK": "pass",
    "INFO": "pass",
    "INSUFFICIENT_BASELINE": "inconclusive",
    "STALE": "inconclusive",
    "NEW_CLASS": "inconclusive",
    "DEGENERATE": "inconclusive",
    "WARN": "inconclusive",
    "BREACH": "fail",
}


def render_drift(view: DriftView) -> bytes:
    """Return the page."""
    return (
        page_environment(*TEMPLATES).get_template("drift.html").render(drift_context(view)).encode()
    )


def drift_context(view: DriftView) -> dict[str, object]:
    """Return the template context of an asset's drift."""
    level = find_worst(one.signal.level for one in view.series)
    tone = "inconclusive" if level is None else TONES[level]
    stage = f"{view.version} is {view.stage}" if view.stage else "in no stage"
    return {
        "view": view,
        "tone": tone,
        "word": "NOTHING WATCHED" if level is None else level.replace("_", " "),
        "title": f"{view.asset}: drift",
        "reason": f"{view.kind or 'of no registered kind'}, {stage}",
        "charts": [(one, draw_drift_chart(one, _find_episodes(view, one))) for one in view.series],
        "tones": TONES,
        "version": __version__,
        "moment": words.moment,
        "counted": words.counted,
        "short": short,
        "signed": _format_signed,
        "shown": _format_number,
        "minus": _replace_minus,
    }


def _find_episodes(view: DriftView, series: SeriesView) -> list[Episode]:
    """Return the episodes of a series, and of detectors of its metric that have no chart."""
    elsewhere = {one.detector for one in view.series if one.metric == series.metric}
    return [
        episode
        for episode in view.episodes
        if episode.metric == series.metric and episode.detector not in elsewhere - {series.detector}
    ]


def _format_signed(value: float | None) -> str:
    return "" if value is None else _replace_minus(f"{value:+.2f}")


def _format_number(value: float | None) -> str:
    return "" if value is None else _replace_minus(words.number(value))


def _replace_minus(text: str) -> str:
    """Replace a leading hyphen by a minus sign."""
    return "−" + text[1:] if text.startswith("-") else text
