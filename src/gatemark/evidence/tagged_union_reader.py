"""Reading one file of records that tell a story together, and everything wrong with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from gatemark.core.record import FileRules, Form, RecordSchema, Remark
from gatemark.evidence.lines import read_blocks
from gatemark.evidence.reading_options import ReadingChoices, place
from gatemark.evidence.record_reader import RecordReader
from gatemark.evidence.shape import Shape
from gatemark.evidence.source import Source
from gatemark.evidence.whole_file import whole_file

BLOCK_BYTES: Final = 64 * 1024
"""Rules look at whole blocks, so larger ones cost less per record."""


class TaggedReading(msgspec.Struct, frozen=True):
    """What was read: records by kind, and what is to be said about them.

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
        """Whether nothing is wrong."""
        return not self.problems


def read_tagged(
    source: Source,
    expected: RecordSchema | Form | Shape,
    rules: FileRules | None,
    choices: ReadingChoices,
    watch: Callable[[bytes], None] | None = None,
) -> TaggedReading:
    """Read a whole file; the rules see every good record in order."""
    reader = RecordReader(
        expected,
        choices.limits,
        check_duplicate_keys=choices.check_duplicate_keys,
        max_refusals=choices.max_errors,
    )
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
        (refusal.line, place(source.name, refusal.line, problem))
        for refusal in reader.refusals
        for problem in refusal.problems
    ]
    problems += [(remark.line, remark_words(source.name, remark)) for remark in remarks.errors]
    problems.sort(key=lambda found: found[0])
    if reader.received == 0:
        problems.append((1, f"{source.name}: holds no records"))
    unlisted = max(0, reader.rejected - len(reader.refusals)) + remarks.unlisted
    return TaggedReading(
        kinds={_kind_name(kind): count for kind, count in kinds.items()},
        received=reader.received,
        accepted=reader.accepted,
        rejected=reader.rejected,
        problems=tuple(words for _, words in problems),
        unlisted=unlisted,
        remarks=tuple(remarks.others),
        rule_counts=remarks.by_rule,
    )


def remark_words(name: str, remark: Remark) -> str:
    """A remark as one line of text; what is no error says so."""
    where = "" if remark.path == "$" else f" at {remark.path}"
    grade = "" if remark.grade == "error" else f"{remark.grade}: "
    rule = f" ({remark.rule})" if remark.rule else ""
    return f"{name}:{remark.line}: {grade}{remark.message}{where}{rule}"


def _kind_name(kind: type) -> str:
    tag = kind.__struct_config__.tag if issubclass(kind, msgspec.Struct) else None
    return str(tag or kind.__name__)


class _Kept:
    """Remarks, as many as anyone will read, and the number of the rest."""

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
