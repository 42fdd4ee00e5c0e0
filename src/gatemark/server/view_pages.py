"""The pages of ``gatemark view``: one result, comparison or log, without a store."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from jinja2 import Environment

from gatemark import __version__
from gatemark.core.canonical import json_text
from gatemark.core.result import Result
from gatemark.report import words
from gatemark.report.html import result_context
from gatemark.report.pages import page_environment
from gatemark.samples.browse import LogSample, LogView
from gatemark.samples.views import ComparisonReport, render_comparison_text

STYLES: Final = ("report.css", "page.css", "view.css")
ROWS: Final = 50
TEXT_MAX: Final = 8_000
"""Maximum characters of an input, target or output on a page."""
LINE_MAX: Final = 160

Subject = Result | ComparisonReport | LogView


class ViewPages:
    """The pages about one subject; a query selects the part of a log."""

    def __init__(self, subject: Subject, name: str) -> None:
        self._subject = subject
        self._name = name
        # Cached: charts are slow to draw, and a result does not change.
        self._result = result_context(subject) if isinstance(subject, Result) else None

    def page(self, query: Mapping[str, str]) -> bytes:
        """Return the page for a query."""
        if self._result is not None:
            return _render("view_result.html", {**self._result, "name": self._name})
        if isinstance(self._subject, ComparisonReport):
            return _render("view_comparison.html", self._build_comparison(self._subject))
        if isinstance(self._subject, LogView):
            return _render("view_log.html", self._log(self._subject, query))
        raise TypeError(type(self._subject))

    def _build_comparison(self, compared: ComparisonReport) -> dict[str, object]:
        return {
            "title": f"{Path(compared.base.file).name} and {Path(compared.cand.file).name}",
            "name": self._name,
            "verdict": compared.verdict,
            "word": words.VERDICT_WORDS[compared.verdict],
            "reason": compared.reason,
            "text": render_comparison_text(compared),
        }

    def _log(self, log: LogView, query: Mapping[str, str]) -> dict[str, object]:
        searched = query.get("q", "").strip()
        found = log.search(searched) if searched else log.samples
        last = max(1, -(-len(found) // ROWS))
        asked = query.get("page", "1")
        number = min(int(asked), last) if asked.isdigit() and len(asked) < 9 else 1
        number = max(1, number)
        shown = found[(number - 1) * ROWS : number * ROWS]
        return {
            "title": self._name,
            "name": self._name,
            "log": log,
            "searched": searched,
            "found_count": len(found),
            "first": (number - 1) * ROWS + 1,
            "rows": [_make_row(one, [column.name for column in log.scores]) for one in shown],
            "ways": _list_page_links(number, last, searched),
        }


def _list_page_links(number: int, last: int, searched: str) -> list[tuple[str, str]]:
    """Return links to the previous and next page."""
    steps = [("Previous", number - 1), ("Next", number + 1)]
    kept = {"q": searched} if searched else {}
    return [
        (f"/?{urlencode({**kept, 'page': place})}", word)
        for word, place in steps
        if 1 <= place <= last
    ]


def _make_row(sample: LogSample, names: Sequence[str]) -> dict[str, object]:
    parts = [("Input", sample.input), ("Expected", sample.target), ("Output", sample.output)]
    latency = "" if sample.latency_ms is None else words.amount(sample.latency_ms, "ms")
    return {
        "id": sample.id,
        "epoch": sample.epoch,
        "error": sample.error,
        "summary": words.shortened(words.one_line(_format_text(sample.output)), LINE_MAX),
        "scores": [_format_number(sample.scores.get(name)) for name in names],
        "latency": latency,
        "parts": [
            (label, words.shortened(_format_text(content), TEXT_MAX))
            for label, content in parts
            if content is not None
        ],
    }


def _format_number(value: float | None) -> str:
    return "none" if value is None else words.number(value)


def _format_text(content: object) -> str:
    if content is None:
        return ""
    return content if isinstance(content, str) else json_text(content)


def refused_page(reason: str) -> bytes:
    """Return the page that explains a refusal."""
    return _render("view_refused.html", {"title": "Not shown", "reason": reason})


def style_address() -> str:
    """Return the address of the style sheet, with a digest so that an old one is not used."""
    return f"/style.css?v={hashlib.sha256(style()).hexdigest()[:12]}"


@cache
def style() -> bytes:
    """Return the style sheet."""
    source = _make_environment()
    texts = [source.loader.get_source(source, one)[0] for one in STYLES]  # type: ignore[union-attr]
    return "\n".join(texts).encode()


@cache
def icon() -> bytes:
    """Return the icon."""
    return (files("gatemark.server") / "static" / "icon.svg").read_bytes()


@cache
def _make_environment() -> Environment:
    found = page_environment("gatemark.server")
    found.globals.update(version=__version__, counted=words.counted, number=words.number)
    return found


def _render(template: str, context: Mapping[str, object]) -> bytes:
    page = _make_environment().get_template(template)
    return page.render({"style": style_address(), **context}).encode()
