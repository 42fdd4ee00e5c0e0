"""Files whose first line says what the others are: that line first, then the rest by its form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gatemark.core.errors import UsageError
from gatemark.core.record import Form, RecordSchema
from gatemark.evidence.lines import Block
from gatemark.evidence.reading_options import ReadingChoices
from gatemark.evidence.record_reader import RecordReader, RefusedLine


class HeadedReader:
    """Reads one file of a schema with a head, and keeps the same accounts as ``Admission``.

    ``head`` is the decoded first line, None until it was found to be good. Without a good head
    nothing tells what the other lines must be, and they are not read.
    """

    def __init__(
        self, schema: RecordSchema, choices: ReadingChoices, *, max_refusals: int | None = None
    ) -> None:
        if schema.head is None or schema.body is None:
            raise UsageError(f"schema {schema.name} has no first line of another form")
        self._schema = schema
        self._body_form = schema.body
        self._choices = choices
        self._max_refusals = max_refusals or choices.max_errors
        self.form = schema.form(schema.head)
        self._first = self._reader(self.form)
        self._rest: RecordReader | None = None
        self.head: Any | None = None

    @property
    def received(self) -> int:
        """Lines that were not blank, the first included."""
        return self.accepted + self.rejected

    @property
    def accepted(self) -> int:
        """Lines that became records."""
        return self._first.accepted + (self._rest.accepted if self._rest else 0)

    @property
    def rejected(self) -> int:
        """Lines that did not."""
        return self._first.rejected + (self._rest.rejected if self._rest else 0)

    @property
    def refusals(self) -> list[RefusedLine]:
        """The lines that did not become records, as many as are kept."""
        return [*self._first.refusals, *(self._rest.refusals if self._rest else ())]

    @property
    def batch_lines(self) -> Sequence[int]:
        """The line of each record of the batch that is being looked at."""
        return self._rest.batch_lines if self._rest else ()

    def records(self, blocks: Iterator[Block]) -> Iterator[list[Any]]:
        """The good records after the first, batch by batch."""
        left = b""
        for block in blocks:
            left = self._take_head(block)
            if self._first.received:
                break
        if self.head is None:
            return
        self.form = self._schema.form(self._body_form(self.head))
        self._rest = self._reader(self.form)
        self._rest.line_count = self._first.line_count
        yield from self._rest.records(_after(left, blocks))

    def _take_head(self, block: Block) -> bytes:
        """Read up to the first line that is not blank; what follows it in the block."""
        if block.overlong:
            list(self._first.records(iter([block])))
            return b""
        data = block.data
        while data and not self._first.received:
            line, newline, data = data.partition(b"\n")
            for batch in self._first.records(iter([Block(line + newline)])):
                (self.head,) = batch
        return data

    def _reader(self, form: Form) -> RecordReader:
        return RecordReader(
            form,
            self._choices.limits,
            check_duplicate_keys=self._choices.check_duplicate_keys,
            max_refusals=self._max_refusals,
        )


def _after(left: bytes, blocks: Iterator[Block]) -> Iterator[Block]:
    if left:
        yield Block(left)
    yield from blocks
