"""Reading one file of records whole: valid, unique and counted, or refused with every place."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

from gatemark.core.errors import BadInputError
from gatemark.core.progress import Progress
from gatemark.core.record import Form
from gatemark.evidence.exam import NumberedRecord
from gatemark.evidence.lines import Block, read_blocks
from gatemark.evidence.reading_options import ReadingChoices, place, refuse
from gatemark.evidence.record_reader import RecordReader
from gatemark.evidence.source import Shard, Source, split_sources


def admitted_batches(
    source: Source, form: Form, choices: ReadingChoices, on_progress: Progress | None = None
) -> Iterator[list[NumberedRecord]]:
    """The records of a file in order; what is wrong with the file is raised after the last one."""
    shard = whole_file(source)
    reader = RecordReader(
        form,
        choices.limits,
        check_duplicate_keys=choices.check_duplicate_keys,
        max_refusals=choices.max_errors,
    )
    # Far faster than the form's own way, and the same when there are several fields.
    fields = form.unique or ()
    key_of = operator.attrgetter(*fields) if len(fields) > 1 else form.key_of
    first_lines: dict[tuple[Any, ...], int] = {}
    repeated: list[str] = []
    for batch in reader.records(_watched(shard, choices, on_progress)):
        numbered = [
            NumberedRecord(line, record)
            for line, record in zip(reader.batch_lines, batch, strict=True)
        ]
        for line, record in numbered:
            key = key_of(record)
            first = first_lines.setdefault(key, line)
            if first != line:
                words = form.key_words(key)
                repeated.append(f"{source.name}:{line}: {words} was seen before on line {first}")
        yield numbered
    problems = [
        place(source.name, refusal.line, problem)
        for refusal in reader.refusals
        for problem in refusal.problems
    ]
    refuse(problems, choices, total=reader.rejected)
    refuse(repeated, choices)
    if reader.received == 0:
        raise BadInputError(f"{source.name}: holds no records")


def whole_file(source: Source) -> Shard:
    """A file as the one shard it is."""
    (shard,) = split_sources((source,), parts=1, min_bytes=1)
    return shard


def _watched(
    shard: Shard, choices: ReadingChoices, on_progress: Progress | None
) -> Iterator[Block]:
    done = 0
    for block in read_blocks(shard, choices.limits):
        yield block
        done += len(block.data)
        # Packed files unpack to more than they hold; the bar stops at their end.
        if on_progress is not None:
            on_progress(min(done, shard.size), shard.size)
