"""Read the examples of run-log records from the data files alongside.

``run_examples.json`` has the examples of run logs, and so on. ``records`` are known-good records by
name. The other keys are versions, each with the good and bad records of every form and with good
and bad files. A record is written out, or it is the name of a known one, or the changes of one:
``{"of": "flush", "with": {"flush_index": -1}, "without": ["text_hash"], "replace": {"V0": "V2"}}``,
with dotted paths into nested objects.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from msgspec import Struct

from gatemark.core.record import BadExample, BadFile

Example = Mapping[str, Any]


class Examples(Struct, frozen=True):
    """The examples of one version: by the name of a form, and as whole files."""

    good: Mapping[str, tuple[Example, ...]]
    bad: Mapping[str, tuple[BadExample, ...]]
    good_files: tuple[tuple[Example, ...], ...]
    bad_files: tuple[BadFile, ...]


def load_examples(name: str) -> dict[str, Examples]:
    """Return the examples of a kind of log by their versions."""
    data = files(__package__).joinpath(f"{name}_examples.json").read_bytes()
    versions: dict[str, dict[str, Any]] = json.loads(data)
    known: dict[str, Example] = {}
    for each, spec in versions.pop("records").items():
        known[each] = _make_record(spec, known)
    return {version: _make_examples(spec, known) for version, spec in versions.items()}


def _make_examples(spec: Mapping[str, Any], known: Mapping[str, Example]) -> Examples:
    def make_all(specs: Sequence[Any]) -> tuple[Example, ...]:
        return tuple(_make_record(one, known) for one in specs)

    return Examples(
        good={form: make_all(specs) for form, specs in spec["good"].items()},
        bad={
            form: tuple(
                BadExample(one["title"], _make_record(one, known), one["at"]) for one in specs
            )
            for form, specs in spec["bad"].items()
        },
        good_files=tuple(make_all(file) for file in spec["good_files"]),
        bad_files=tuple(
            BadFile(one["title"], make_all(one["records"]), one["line"], one["rule"])
            for one in spec["bad_files"]
        ),
    )


def _make_record(spec: Any, known: Mapping[str, Example]) -> Example:
    if isinstance(spec, str):
        return known[spec]
    if "of" not in spec:
        return dict(spec)
    text = json.dumps(known[spec["of"]])
    for old, new in spec.get("replace", {}).items():
        text = text.replace(old, new)
    record: dict[str, Any] = json.loads(text)
    for path, value in spec.get("with", {}).items():
        place, key = _find_place(record, path)
        place[key] = value
    for path in spec.get("without", ()):
        place, key = _find_place(record, path)
        del place[key]
    return record


def _find_place(record: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    *parents, key = path.split(".")
    for parent in parents:
        record = record[parent]
    return record, key
