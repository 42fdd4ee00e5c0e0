"""Read arm files, and describe what is wrong with them.

Messages of defects are part of stored reports, so their wording stays.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import UNSET

from gatemark.core.errors import BadInputError
from gatemark.core.progress import Advance
from gatemark.evidence.blocks import read_blocks
from gatemark.evidence.input_problems import format_problem
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.record_reader import RecordReader
from gatemark.evidence.record_schemas import schemas
from gatemark.evidence.shards import whole_file
from gatemark.evidence.source import Source, digest_source, inspect_source
from gatemark.plugins.overhead.records import NAME, ArmMeta, CountWindow, LossWindow

Role = Literal["bare", "guarded", "noise", "repeat"]
SHOWN_IDS: Final = 20
LISTED_IDS: Final = 3
"""Maximum number of window ids in a message; the list alongside it has more."""


class Hole(msgspec.Struct, frozen=True):
    """A line without a usable window; ``window_id`` is null if it cannot be read."""

    line: int
    window_id: str | None
    problem: str


class ArmFile(msgspec.Struct, frozen=True, kw_only=True):
    """One arm file: its first line, and its windows as columns.

    ``meta`` is null if there is no arm, and ``absent`` says why. ``weights`` are tokens or answers,
    ``values`` losses or correct answers; ``token_counts`` may accompany answers. ``damage`` is
    where the file breaks off.
    """

    role: Role
    name: str
    digest: str | None = None
    byte_count: int = 0
    meta: ArmMeta | None = None
    absent: str | None = None
    damage: str | None = None
    ids: list[str] = []
    contents: list[str] = []
    weights: list[int] = []
    values: list[float] = []
    token_counts: list[int | None] = []
    holes: list[Hole] = []
    hole_count: int = 0

    @property
    def label(self) -> str:
        """The file name without its folder, so that a report does not depend on the folder."""
        return self.name.replace("\\", "/").rpartition("/")[2]

    @property
    def expected(self) -> int:
        """The number of windows in the plan; 0 without a plan."""
        return 0 if self.meta is None else self.meta.plan.windows


class Defect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One reason why two arms do not pair. ``check`` is stable; ``window_ids`` are the first."""

    check: str
    message: str
    window_ids: tuple[str, ...] = ()
    count: int = 1


def make_defect(check: str, message: str, ids: list[str] | None = None) -> Defect:
    """Return a defect of some windows, with their count and the first of their ids."""
    if ids is None:
        return Defect(check, message)
    listed = list_first(ids[:LISTED_IDS], ", ", len(ids))
    return Defect(check, f"{message}: {listed}", tuple(ids[:SHOWN_IDS]), len(ids))


def word_headline(defects: Sequence[Defect], *, is_brief: bool = False) -> str:
    """Return the first defect and the number of others; in brief without window ids."""
    first = defects[0]
    message = first.message
    if is_brief and (first.window_ids or first.count > 1):
        noun = "window" if first.count == 1 else "windows"
        message = f"{message.partition(': ')[0]} ({first.count} {noun})"
    more = len(defects) - 1
    rest = "" if not more else f"; {more} more {'check fails' if more == 1 else 'checks fail'}"
    return f"{first.check}: {message}{rest}"


def list_first(first: Sequence[str], joint: str, count: int) -> str:
    """Join the first of many, and say how many more there are."""
    more = f" and {count - len(first)} more" if count > len(first) else ""
    return joint.join(first) + more


MAX_WINDOWS: Final = 5_000_000
KEPT_HOLES: Final = 200


def read_arm(
    role: Role,
    path: str | None,
    choices: ReadingChoices,
    on_progress: Advance | None = None,
) -> ArmFile:
    """Read one arm. A missing file is a missing arm, not an error."""
    if path is None:
        return ArmFile(role=role, name="(none)", absent="no file was given")
    try:
        source = inspect_source(path)
    except BadInputError as error:
        return ArmFile(role=role, name=path, absent=str(error).replace(path, Path(path).name))
    if source.byte_count == 0:
        return ArmFile(role=role, name=path, absent=f"{Path(path).name}: is empty")
    reader = RecordReader(schemas().get(NAME), choices, max_refusals=KEPT_HOLES)
    return _read_source(role, source, reader, choices, on_progress)


def _read_source(
    role: Role,
    source: Source,
    reader: RecordReader,
    choices: ReadingChoices,
    on_progress: Advance | None,
) -> ArmFile:
    def watch(data: bytes) -> None:
        if on_progress is not None:
            on_progress(len(data))

    rows: list[LossWindow | CountWindow] = []
    damage: str | None = None
    try:
        for batch in reader.records(read_blocks(whole_file(source), choices.limits, watch)):
            rows.extend(batch)
            if len(rows) > MAX_WINDOWS:
                break
    except BadInputError as error:
        if reader.head is None:
            raise
        damage = str(error)
    if len(rows) > MAX_WINDOWS:
        raise BadInputError(f"{source.name}: holds more than {MAX_WINDOWS} windows")
    meta = reader.head
    if not isinstance(meta, ArmMeta):
        problems = tuple(reader.problems(source.name))
        raise BadInputError(problems or f"{source.name}: no records")
    counts = [row for row in rows if isinstance(row, CountWindow)]
    file = digest_source(source)
    return ArmFile(
        role=role,
        name=source.name,
        digest=file.digest,
        byte_count=file.byte_count,
        meta=meta,
        damage=damage,
        ids=[row.window_id for row in rows],
        contents=[row.content_hash for row in rows],
        weights=[row.total if isinstance(row, CountWindow) else row.tokens for row in rows],
        token_counts=[None if row.tokens is UNSET else row.tokens for row in counts],
        # Adding 0.0 turns -0.0 into 0.0.
        values=[row.correct if isinstance(row, CountWindow) else row.loss + 0.0 for row in rows],
        holes=_list_holes(source, reader, choices),
        hole_count=reader.rejected,
    )


def _list_holes(source: Source, reader: RecordReader, choices: ReadingChoices) -> list[Hole]:
    """Return the refused lines with their window ids, by reading the file again."""
    if not reader.refusals:
        return []
    problems = {
        refusal.line: "; ".join(
            format_problem("", 0, p).removeprefix(":0: ") for p in refusal.problems
        )
        for refusal in reader.refusals
    }
    names: dict[int, str | None] = {}
    line_number = 0
    for block in read_blocks(whole_file(source), choices.limits):
        lines = [b""] if block.overlong else block.data.removesuffix(b"\n").split(b"\n")
        for line in lines:
            line_number += 1
            if line_number in problems:
                names[line_number] = _read_window_id(line)
        if len(names) == len(problems):
            break
    return [Hole(line, names.get(line), text) for line, text in problems.items()]


def _read_window_id(line: bytes) -> str | None:
    """Return the window id of a bad line, also of one with NaN, if it can be read."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    name = value.get("window_id") if isinstance(value, dict) else None
    return name if isinstance(name, str) and name.isprintable() and len(name) <= 512 else None
