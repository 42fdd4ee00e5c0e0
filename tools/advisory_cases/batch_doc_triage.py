"""Documents from a batch: some may be read, some may not, some cannot."""

from __future__ import annotations

from typing import Any

from advisory_cases.case import Draw, FixtureCase

TITLES = (
    *("Orchard plan", "Bicycle rota", "Canteen menu", "Choir schedule", "Compost guide"),
    *("Kiln manual", "Loan statistics", "Path survey", "Pond report", "Tool inventory"),
)
SAMPLES = (
    "A short overview of the season with dates and a list of tasks for volunteers.",
    "Minutes of the open meeting: three topics, two decisions, one date to remember.",
    "A guide in five steps with a table of materials and where to find them.",
    "An overview of last year with a table of visits and a list of open tasks.",
    "Notes of the open day: topics, visitors, and what was decided.",
    "A guide for volunteers with dates, materials and a list of steps.",
)
NOTICES = (
    "Final notice: the permit ends tomorrow and an answer is required before noon.",
    "Deadline tomorrow, the safety inspection found a defect that must be repaired.",
    "Answer required today: the contract ends and the defect is not repaired.",
    "Final reminder, the inspection is overdue and the permit will end.",
    "Deadline today: a defect must be reported before the permit ends.",
    "Overdue inspection, an answer is required before the deadline tomorrow.",
)
UNCLEAR = (
    "Two versions on one page, it is not clear which of them counts.",
    "The page begins in the middle and names no author and no purpose.",
    "Handwritten remarks cover the text, their meaning is not clear.",
    "It is not clear whether this is a draft or the version that counts.",
    "The purpose is not named, half of the page is missing.",
    "Remarks contradict the text and no version is marked.",
)
NOISE = ("rn", "l1", "vv", "0c", "~", "|", "iii", "cl", "^", "..", "t;", "]n", "_", "f1", "ii")


def _document(draw: Draw, excerpt: str | None, quality: float, root: str) -> dict[str, Any]:
    return {
        "title": f"{draw.pick(TITLES)} {draw.number(2, 60)}",
        "root_class": root,
        "excerpt": excerpt,
        "page_count": draw.number(1, 9),
        "ocr_quality": quality,
    }


def _private_root(draw: Draw) -> dict[str, Any]:
    return _document(draw, None, 0.0, "private")


def _approved(draw: Draw) -> dict[str, Any]:
    return _document(draw, draw.phrase(SAMPLES), draw.share(0.85, 1.0), "approved_synthetic")


def _noisy_ocr(draw: Draw) -> dict[str, Any]:
    words = [draw.pick(NOISE) for _ in range(draw.number(9, 18))]
    words.insert(4, draw.pick(("deadline", "notice", "overview", "guide", "minutes")))
    return _document(draw, " ".join(words), draw.share(0.05, 0.4), "approved_synthetic")


def _needs_human(draw: Draw) -> dict[str, Any]:
    return _document(draw, draw.phrase(UNCLEAR), draw.share(0.4, 0.8), "approved_synthetic")


def _deadline(draw: Draw) -> dict[str, Any]:
    return _document(draw, draw.phrase(NOTICES), draw.share(0.7, 1.0), "approved_synthetic")


CASES = (
    FixtureCase("approved_sample", "normal", "summarize", "info", 13, _approved),
    FixtureCase(
        "private_root_blocked",
        "normal",
        "skip_private_root",
        "low",
        8,
        _private_root,
        expected_fallback="private_root_blocked",
    ),
    FixtureCase("noisy_ocr", "false_alarm", "log", "low", 10, _noisy_ocr),
    FixtureCase("deadline_notice", "action_needed", "escalate", "high", 12, _deadline),
    FixtureCase("needs_human", "low_confidence", "needs_human", "medium", 5, _needs_human),
)
