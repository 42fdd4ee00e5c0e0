"""Read one file whole: its first record, its valid records, or everything wrong with it."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.core.progress import Progress
from gatemark.core.record import FileRules, Form, Problem, RecordSchema, Remark
from gatemark.evidence.blocks import Block, read_blocks
from gatemark.evidence.input_problems import format_problem, refuse_input
from gatemark.evidence.inputs import SameInput, normalize_id, normalize_ids
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.record_reader import NumberedRecord, RecordReader
from gatemark.evidence.shape import Shape
from gatemark.evidence.shards import Shard, whole_file
from gatemark.evidence.source import Source, inspect_source
from gatemark.evidence.strict_json import parse_strictly, quoted


class OpenedFile(NamedTuple):
    """A file to read line by line, and its first record; empty if that is not an object.

    ``why_empty`` says what was found instead.
    """

    source: Source
    first: dict[str, Any]
    why_empty: str | None = None


def open_records(source: Source, choices: ReadingChoices, folder: Path | None) -> OpenedFile:
    """Return the file, or its single document as one line if it spans several.

    In JSON, a line break can only be between tokens, so a space can replace it. Without a folder
    for that line, only the first record of what is returned is of use.
    """
    depth = choices.limits.depth
    data = bytearray()
    refused = "contains no records"
    number = 1
    for block in read_blocks(whole_file(source), choices.limits):
        fresh = block.data.lstrip()
        if not data and not fresh and not block.overlong:
            number += block.data.count(b"\n")
            continue
        if not data and not block.overlong:
            line = fresh.split(b"\n", maxsplit=1)[0]
            number += block.data[: len(block.data) - len(fresh)].count(b"\n")
            value, problems = parse_strictly(line, max_depth=depth)
            is_record = isinstance(value, dict) or not problems
            if is_record or not line.startswith((b"{", b"[")):
                return _open_first(source, value, problems, number)
            refused = problems[0].message
        data += block.data
        if block.overlong or len(data) > choices.limits.line_bytes:
            limit = choices.limits.line_bytes
            return OpenedFile(source, {}, f"{number}: line is longer than {limit} bytes")
    if not data:
        return OpenedFile(source, {}, refused)
    line = bytes(data).replace(b"\r", b" ").replace(b"\n", b" ")
    value, _ = parse_strictly(line, max_depth=depth)
    if not isinstance(value, dict):
        return OpenedFile(source, {}, f"{number}: {refused}")
    if folder is None:
        return OpenedFile(source, value)
    target = folder / f"document-{len(list(folder.iterdir()))}"
    target.write_bytes(line + b"\n")
    return OpenedFile(inspect_source(str(target), name=source.name), value)


def _open_first(
    source: Source, value: object, problems: tuple[Problem, ...], number: int
) -> OpenedFile:
    if isinstance(value, dict):
        return OpenedFile(source, value)
    why = problems[0].message if problems else f"got {quoted(value)}, expected object"
    return OpenedFile(source, {}, f"{number}: {why}")


class UniqueNames(FileRules):
    """Refuses records of a file with the same name, or with names that look the same."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._fields = form.unique or ((form.identity,) if form.identity else ())
        self._first: dict[tuple[object, ...], tuple[int, tuple[object, ...]]] = {}

    def see(self, lines: Sequence[int], records: Sequence[object]) -> Iterator[Remark]:
        columns = [list(map(operator.attrgetter(name), records)) for name in self._fields]
        keys = zip(*map(_normalize_column, columns), strict=True)
        for line, key, name in zip(lines, keys, zip(*columns, strict=True), strict=False):
            first, first_name = self._first.setdefault(key, (line, name))
            if first != line:
                this, earlier = map(self._form.key_words, (name, first_name))
                same = SameInput.named(this, earlier, f"on line {first}")
                yield Remark(line, "", "$", same.describe())

    def lost(self) -> None:
        """A refused line has no name."""

    def end(self) -> Iterator[Remark]:
        yield from ()


def _normalize_column(values: list[Any]) -> Sequence[object]:
    """Return one field of a key, with names as they look."""
    if all(type(value) is str for value in values):
        return normalize_ids(values)
    return [normalize_id(value) if isinstance(value, str) else value for value in values]


def admitted_batches(
    source: Source, form: Form, choices: ReadingChoices, on_progress: Progress | None = None
) -> Iterator[list[NumberedRecord]]:
    """Yield the records of a file in order; raise its problems after the last one."""
    shard = whole_file(source)
    reader = RecordReader(form, choices)
    names = UniqueNames(form)
    repeated: list[str] = []
    for batch in reader.records(_read_watched(shard, choices, on_progress)):
        remarks = names.see(reader.batch_lines, batch)
        repeated += [remark_words(source.name, remark) for remark in remarks]
        yield list(map(NumberedRecord, reader.batch_lines, batch))
    refuse_input(reader.problems(source.name), choices, total=reader.rejected)
    refuse_input(repeated, choices)
    if reader.received == 0:
        raise BadInputError(f"{source.name}: contains no records")


def _read_watched(
    shard: Shard, choices: ReadingChoices, on_progress: Progress | None
) -> Iterator[Block]:
    done = 0
    for block in read_blocks(shard, choices.limits):
        yield block
        done += len(block.data)
        # Packed files unpack to more than they hold; the bar stops at their end.
        if on_progress is not None:
            on_progress(min(done, shard.size), shard.size)


BLOCK_BYTES: Final = 96 * 1024
"""Rules look at whole blocks, so larger ones cost less per record."""


class TaggedReading(msgspec.Struct, frozen=True):
    """What was read: records by kind, and problems.

    ``problems`` make the file invalid; at most ``max_errors`` are kept and the rest is counted in
    ``unlisted``. ``remarks`` are warnings and notes, and ``rule_counts`` counts errors and
    warnings by the rule that found them.
    """

    kinds: Mapping[str, int]
    received: int
    accepted: int
    rejected: int
    problems: tuple[str, ...]
    unlisted: int
    remarks: tuple[Remark, ...]
    rule_counts: Mapping[str, int]

    @property
    def is_valid(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


def read_tagged(
    source: Source,
    expected: RecordSchema | Form | Shape,
    rules: FileRules | None,
    choices: ReadingChoices,
    watch: Callable[[bytes], None] | None = None,
) -> TaggedReading:
    """Read a whole file; the rules see every good record in order."""
    reader = RecordReader(expected, choices)
    kinds: Counter[type] = Counter()
    remarks = _Kept(choices.max_errors)
    rejected = 0
    blocks = read_blocks(whole_file(source), choices.limits, watch, block_bytes=BLOCK_BYTES)
    for batch in reader.records(blocks):
        if reader.rejected != rejected and rules is not None:
            rules.lost()
        rejected = reader.rejected
        types = list(map(type, batch))
        for kind in dict.fromkeys(types):
            kinds[kind] += types.count(kind)
        if rules is not None:
            remarks.add(rules.see(reader.batch_lines, batch))
        del batch
    if rules is not None:
        if reader.rejected != rejected:
            rules.lost()
        remarks.add(rules.end())
    problems = [
        (refusal.line, format_problem(source.name, refusal.line, problem))
        for refusal in reader.refusals
        for problem in refusal.problems
    ]
    problems += [(remark.line, remark_words(source.name, remark)) for remark in remarks.errors]
    problems.sort(key=lambda found: found[0])
    if reader.received == 0:
        problems.append((1, f"{source.name}: contains no records"))
    unlisted = max(0, reader.rejected - len(reader.refusals)) + remarks.unlisted
    return TaggedReading(
        kinds={_name_kind(kind): count for kind, count in kinds.items()},
        received=reader.received,
        accepted=reader.accepted,
        rejected=reader.rejected,
        problems=tuple(words for _, words in problems),
        unlisted=unlisted,
        remarks=tuple(remarks.others),
        rule_counts=remarks.by_rule,
    )


def remark_words(name: str, remark: Remark) -> str:
    """Return a remark as one line; warnings and notes say so."""
    where = "" if remark.path == "$" else f" at {remark.path}"
    grade = "" if remark.grade == "error" else f"{remark.grade}: "
    rule = f" ({remark.rule})" if remark.rule else ""
    return f"{name}:{remark.line}: {grade}{remark.message}{where}{rule}"


def _name_kind(kind: type) -> str:
    tag = kind.__struct_config__.tag if issubclass(kind, msgspec.Struct) else None
    return str(tag or kind.__name__)


class _Kept:
    """A bounded list of remarks, and the number of the rest."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.errors: list[Remark] = []
        self.others: list[Remark] = []
        self.unlisted = 0
        self.by_rule: dict[str, int] = {}

    def add(self, remarks: Iterable[Remark]) -> None:
        for remark in remarks:
            if remark.grade != "note":
                self.by_rule[remark.rule] = self.by_rule.get(remark.rule, 0) + 1
            if remark.grade != "error":
                if len(self.others) < self._limit * 10:
                    self.others.append(remark)
            elif len(self.errors) < self._limit:
                self.errors.append(remark)
            else:
                self.unlisted += 1
