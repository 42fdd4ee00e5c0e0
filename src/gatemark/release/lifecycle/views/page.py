"""The history of an asset and the reasons for a version's stage, each as a self-contained page."""

from __future__ import annotations

from typing import Final

from gatemark import __version__
from gatemark.release.lifecycle.decisions.citation import short
from gatemark.release.lifecycle.views.timeline import draw_timeline
from gatemark.release.lifecycle.views.views import History, Why
from gatemark.report import words
from gatemark.report.pages import page_environment

_TONES: Final = {
    "enabled": "pass",
    "canary_1": "pass",
    "canary_5": "pass",
    "canary_25": "pass",
    "rejected": "fail",
    "demoted": "fail",
    "rolled_back": "fail",
}
_GATE_TONES: Final = {
    "pass": "pass",
    "fail": "fail",
    "unjudged": "inconclusive",
    "overridden": "waived",
    "break_glass": "fail",
}
_SHARED: Final[dict[str, object]] = {
    "version": __version__,
    "moment": words.moment,
    "short": short,
    "counted": words.counted,
}
_LINE_TONES: Final = {"up": "pass", "down": "fail", "flag": "inconclusive", "note": ""}


def render_history_page(history: History) -> bytes:
    """Return the HTML page of an asset's history."""
    return _render("history.html", history_context(history))


def history_context(history: History) -> dict[str, object]:
    """Return the template variables of an asset's history."""
    live = [one.version for one in history.live if one.version]
    return _SHARED | {
        "history": history,
        "tone": "pass" if live else "inconclusive",
        "word": ", ".join(live) or "NOTHING LIVE",
        "title": f"{history.asset}: what was live, and why",
        "picture": draw_timeline(history.segments, history.at),
        "line_tones": _LINE_TONES,
    }


def render_why_page(why: Why) -> bytes:
    """Return the HTML page on why a version is in its stage."""
    return _render("why.html", why_context(why))


def why_context(why: Why) -> dict[str, object]:
    """Return the template variables on why a version is in its stage."""
    tone = "fail" if why.problems or why.break_glass else _TONES.get(why.stage, "inconclusive")
    return _SHARED | {
        "why": why,
        "tone": tone,
        "word": why.stage.replace("_", " ").upper(),
        "title": f"{why.asset}@{why.version}: why it is {why.stage}",
        "pins": _list_pins(why),
        "gate_tones": _GATE_TONES,
    }


def _list_pins(why: Why) -> list[tuple[str, str]]:
    plain = {
        name: value
        for name in why.pins.__struct_fields__
        if name != "tools" and (value := getattr(why.pins, name)) is not None
    }
    tools = {f"tool {name}": value for name, value in sorted(why.pins.tools.items())}
    return [*plain.items(), *tools.items()]


def _render(template: str, context: dict[str, object]) -> bytes:
    return (
        page_environment("gatemark.release.lifecycle.views")
        .get_template(template)
        .render(context)
        .encode()
    )
