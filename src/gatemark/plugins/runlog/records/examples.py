"""Read the examples of run-log records from the data files alongside.

``run_examples.json`` has the examples of run logs, and so on. ``records`` are known-good records by
name. The other keys are versions, each with the good and bad records of every form and with good
and bad files. A record is written out, or it is the name of a known one, or the changes of one:
``{"of": "flush", "with": {"flush_index": -1}, "without": ["text_hash"], "replace": {"V0": "V2"}}``,
with dotted paths into nested objects.

Only tests and the reference page look at examples, so they are read when someone does. A version
``like`` another has its bad records, except of forms for which it has its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, overload

from msgspec import Struct

from gatemark.core.record import BadExample, BadFile

Example = Mapping[str, Any]
T = TypeVar("T")


class LateSequence(Sequence[T]):
    """A sequence that is made when it is first looked at."""

    def __init__(self, make: Callable[[], Sequence[T]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> tuple[T, ...]:
        return tuple(self._make())

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._made[index]

    def __len__(self) -> int:
        return len(self._made)


class ExamplesOf(NamedTuple):
    """The examples of one version of a kind of log."""

    log: str
    version: str

    def list_good(self, form: str) -> Sequence[Example]:
        """Return the good records of a form."""
        return LateSequence(lambda: self._load().good[form])

    def list_bad(self, form: str, required: Sequence[str] = ()) -> Sequence[BadExample]:
        """Return the bad records of a form, and its first good one without each required key."""

        def make() -> list[BadExample]:
            loaded = self._load()
            good = loaded.good[form][0]
            return [
                *loaded.bad[form],
                *(
                    BadExample(f"no {key}", {k: v for k, v in good.items() if k != key}, "$")
                    for key in required
                ),
            ]

        return LateSequence(make)

    @property
    def good_files(self) -> Sequence[tuple[Example, ...]]:
        """The files that are good."""
        return LateSequence(lambda: self._load().good_files)

    @property
    def bad_files(self) -> Sequence[BadFile]:
        """The files that are refused."""
        return LateSequence(lambda: self._load().bad_files)

    def _load(self) -> _Examples:
        return _load_examples(self.log)[self.version]


class _Examples(Struct, frozen=True):
    good: Mapping[str, tuple[Example, ...]]
    bad: Mapping[str, tuple[BadExample, ...]]
    good_files: tuple[tuple[Example, ...], ...]
    bad_files: tuple[BadFile, ...]


@cache
def _load_examples(log: str) -> dict[str, _Examples]:
    """Return the examples of a kind of log by their versions."""
    data = Path(__file__).with_name(f"{log}_examples.json").read_bytes()
    versions: dict[str, dict[str, Any]] = json.loads(data)
    known: dict[str, Example] = {}
    for name, spec in versions.pop("records").items():
        known[name] = _make_record(spec, known)
    found: dict[str, _Examples] = {}
    for version, spec in versions.items():
        inherited = found[spec["like"]].bad if "like" in spec else {}
        found[version] = _make_examples(spec, known, inherited)
    return found


def _make_examples(
    spec: Mapping[str, Any],
    known: Mapping[str, Example],
    inherited: Mapping[str, tuple[BadExample, ...]],
) -> _Examples:
    def make_all(specs: Sequence[Any]) -> tuple[Example, ...]:
        return tuple(_make_record(one, known) for one in specs)

    return _Examples(
        good={form: make_all(specs) for form, specs in spec["good"].items()},
        bad={
            **inherited,
            **{
                form: tuple(
                    BadExample(one["title"], _make_record(one, known), one["at"]) for one in specs
                )
                for form, specs in spec["bad"].items()
            },
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
