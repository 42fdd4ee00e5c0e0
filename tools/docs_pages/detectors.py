"""The reference page of detectors: formulas, references, options and worked examples."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gatemark.release.drift.detectors.registry import detectors
from gatemark.release.drift.judging.detector import Detector, KnownReading

_OPENING = """\
# Detectors

A detector reads windows and says how far the latest is from its baseline. It has no memory: the
same windows always give the same reading. Each carries worked examples, and the common check
`gatemark.testing.detectors.check_detector` must find exactly these numbers; "none" means that
there must be no number. Options go into the watch of a [drift policy](../explanation/drift.md).
"""


def detectors_page() -> str:
    """Every detector with how it counts and who found it."""
    parts = [part for detector in detectors() for part in _detector(detector)]
    return "\n".join([_OPENING, *parts]).rstrip() + "\n"


def _detector(detector: Detector) -> Iterator[str]:
    yield f"## {detector.name}\n"
    yield f"{detector.summary}\n"
    yield f"Reads points of the form {', '.join(f'`{form}`' for form in sorted(detector.forms))}.\n"
    yield f"Formula: {detector.formula}\n"
    yield "References:\n"
    for reference in detector.references:
        yield f"- {reference}"
    yield ""
    yield from _options(detector)
    yield "| Worked example | Must give |"
    yield "|---|---|"
    for known in detector.known:
        yield f"| {known.title} | {_expected(known)} |"
    yield ""


def _options(detector: Detector) -> Iterator[str]:
    fields = msgspec.structs.fields(detector.options)
    if not fields:
        return
    yield f"{(detector.options.__doc__ or '').replace('``', '`')}\n"
    yield "| Option | Default |"
    yield "|---|---|"
    for field in fields:
        default = msgspec.json.encode(field.default).decode()
        yield f"| `{field.name}` | `{default}` |"
    yield ""


def _expected(known: KnownReading) -> str:
    return ", ".join(f"`{name}` {_number(value)}" for name, value in known.expected.items())


def _number(value: float | None) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}"
