"""Read blocks of lines as typed records, and count every line.

The fast path decodes a whole block and only notices that something is wrong; the slow path
then goes line by line and says what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from gatemark.core.record import Form, Problem, RecordSchema
from gatemark.evidence.blocks import Block
from gatemark.evidence.input_problems import format_problem
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.shape import Kinds, Shape, key_count, may_nest, shape_of, whole_type
from gatemark.evidence.strict_json import depth

_OPENING, _CLOSING, _NEWLINE = b"{}\n"
_WHOLE_TRIES = 8


class NumberedRecord(NamedTuple):
    """A record and its line."""

    line: int
    record: Any


class RefusedLine(msgspec.Struct, frozen=True):
    """A line that did not become a record; ``line`` counts from 1 within the shard."""

    line: int
    problems: tuple[Problem, ...]


class RecordReader:
    """Reads blocks of lines as records and counts them. Each shard has its own reader.

    All lines have one form, or the forms of a tagged schema. In a schema with a head, the first
    line says the form of the others: ``head`` is that line as a record, None until it was found to
    be good. Without a good head the other lines are not read. ``form`` is the form of the lines,
    where all have the same.
    ``received == accepted + rejected`` holds after every block; blank lines are not received.
    """

    def __init__(
        self,
        expected: Form | RecordSchema | Shape,
        choices: ReadingChoices,
        *,
        max_refusals: int | None = None,
    ) -> None:
        self._limits = choices.limits
        self._check_keys = choices.check_duplicate_keys
        self._max_refusals = choices.max_errors if max_refusals is None else max_refusals
        self._decode_untyped: Callable[[bytes], object] = msgspec.json.Decoder().decode
        self._encoder = msgspec.json.Encoder()
        self.line_count = 0
        self.accepted = 0
        self.rejected = 0
        self.batch_lines: Sequence[int] = ()
        self.refusals: list[RefusedLine] = []
        self.head: object | None = None
        self._headed: RecordSchema | None = None
        if isinstance(expected, RecordSchema) and expected.head is not None:
            self._headed = expected
            expected = expected.form(expected.head)
        self._prepare(expected)

    def _prepare(self, expected: Form | RecordSchema | Shape) -> None:
        """Prepare to read lines of this kind."""
        self.form = expected if isinstance(expected, Form) else None
        shape = shape_of(expected) if isinstance(expected, Form | RecordSchema) else expected
        self._shape = shape
        self._decode = shape.decode
        self._decoder = shape.decoder
        whole = None
        if self._check_keys and self.form is not None:
            whole = whole_type(self.form.type)
        self._whole_keys = 0 if whole is None else whole.key_count
        self._whole_decoder: msgspec.json.Decoder[object] | None = (
            None if whole is None else msgspec.json.Decoder(whole.type)
        )
        self._whole_tries = _WHOLE_TRIES
        self._may_nest = may_nest(expected)

    @property
    def received(self) -> int:
        """The number of lines that are not blank."""
        return self.accepted + self.rejected

    def problems(self, name: str) -> list[str]:
        """Return what is wrong with the refused lines, one message per problem."""
        return [
            format_problem(name, refusal.line, problem)
            for refusal in self.refusals
            for problem in refusal.problems
        ]

    def records(self, blocks: Iterator[Block]) -> Iterator[list[Any]]:
        """Yield the good records of each block, in order, without a head.

        Until the next batch, ``batch_lines`` has the line of each record.
        """
        for block in blocks if self._headed is None else self._skip_head(self._headed, blocks):
            if block.overlong:
                self.line_count += 1
                limit = self._limits.line_bytes
                self._refuse((Problem("$", f"line is longer than {limit} bytes"),))
                continue
            for batch in self._read_block(block.data):
                self.accepted += len(batch)
                if batch:
                    yield batch
                del batch

    def _skip_head(self, schema: RecordSchema, blocks: Iterator[Block]) -> Iterator[Block]:
        """Read the first line that is not blank; yield what follows it."""
        left = b""
        for block in blocks:
            if block.overlong:
                yield block
                return
            left = self._skip_blank(block.data)
            if left:
                line, _, left = left.partition(b"\n")
                self._take_head(line)
                break
        if self.head is None or schema.body is None:
            return
        self._prepare(schema.form(schema.body(self.head)))
        if left:
            yield Block(left)
        yield from blocks

    def _skip_blank(self, lines: bytes) -> bytes:
        """Return what follows the blank lines at the start, of which there may be millions."""
        blank = len(lines) - len(lines.lstrip())
        end = len(lines) if blank == len(lines) else lines.rfind(b"\n", 0, blank) + 1
        is_cut = end > 0 and not lines.endswith(b"\n", 0, end)
        self.line_count += lines.count(b"\n", 0, end) + is_cut
        return lines[end:]

    def _take_head(self, line: bytes) -> None:
        self.line_count += 1
        self.head, problems = self._admit_line(line)
        if problems:
            self._refuse(problems)
        else:
            self.accepted += 1

    def _read_block(self, data: bytes) -> Iterable[list[object]]:
        """Return the valid records of some lines: all at once, else line by line."""
        if data[:1].isspace() and not (data := self._skip_blank(data)):
            return ()
        line_count = object_lines(data) if self._decoder is not None else None
        if line_count is not None:
            batch = self._read_fast(data, None, line_count)
            if batch is not None:
                first = self.line_count + 1
                self.line_count += line_count
                self.batch_lines = range(first, self.line_count + 1)
                return (batch,)
        lines = data.removesuffix(b"\n").split(b"\n")
        batch = self._read_fast(data, lines, len(lines))
        if batch is None:
            return self._read_slow(lines)
        self._number_lines(lines, len(batch))
        return (batch,)

    def _read_fast(
        self, data: bytes, lines: Sequence[bytes] | None, line_count: int
    ) -> list[object] | None:
        """Return all records of some lines, or None if any line needs the slow path.

        Without ``lines`` the data is read in one go; it must be one object per line.
        """
        try:
            if not data.isascii():
                data.decode("utf-8")
            batch = self._read_fast_whole(data, lines, line_count)
            keys_are_unique = batch is not None or not self._check_keys
            if batch is None:
                batch = self._decode_lines(data, lines)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        if lines is None and len(batch) != line_count:
            return None
        if self._may_nest and not self._is_shallow(data):
            return None
        kinds = self._shape.kinds(batch)
        if not keys_are_unique and not self._has_unique_keys(data, batch, kinds):
            return None
        return batch if self._shape.keeps_rules(kinds) else None

    def _decode_lines(self, data: bytes, lines: Sequence[bytes] | None) -> list[object]:
        if self._decoder is not None:
            return _decode_each(self._decoder, data, lines)
        decode = self._decode
        return [decode(line) for line in lines or () if line]

    def _read_fast_whole(
        self, data: bytes, lines: Sequence[bytes] | None, line_count: int
    ) -> list[object] | None:
        """Return all records of some lines if every line has every key exactly once, or None.

        Lines that leave out optional keys make the attempt useless, so it is given up for a file
        that keeps failing it.
        """
        decoder = self._whole_decoder
        if decoder is None or (found := key_count(data)) is None:
            return None
        if found == self._whole_keys * line_count:
            try:
                return _decode_each(decoder, data, lines)
            except msgspec.ValidationError:
                pass
        self._whole_tries -= 1
        if self._whole_tries == 0:
            self._whole_decoder = None
        return None

    def _number_lines(self, lines: Sequence[bytes], record_count: int) -> None:
        """Set the line of each record; blank lines are rare."""
        first = self.line_count + 1
        self.line_count += len(lines)
        if record_count == len(lines):
            self.batch_lines = range(first, self.line_count + 1)
        else:
            self.batch_lines = [first + index for index, line in enumerate(lines) if line]

    def _has_unique_keys(self, data: bytes, batch: list[object], kinds: Kinds) -> bool:
        """Return True if it is proven that no object in the block repeats a key.

        Every key occurrence brings one colon. Encoding the decoded records again brings the
        colons of unique keys and of the same strings, so equal counts leave no room for a
        repeated key. Only an escaped colon stands in a record and not in its line, so it forgoes
        the proof; msgspec itself refuses what no other escape may say, such as half a pair.
        Typed records leave out keys that only repeat a default; where lines write those, the
        same is proved of the untyped values, unless they could be nested too deeply.
        Where records tell how many keys they have, counting those of the data is enough.
        """
        total = self._shape.key_total(kinds)
        if total is not None and total == key_count(data):
            return True
        if _has_escaped_colon(data):
            return False
        encoded = self._encoder.encode_lines(batch)
        if _count_signs(data, b":") == _count_signs(encoded, b":"):
            return True
        lines = [line for line in data.split(b"\n") if line]
        found = _count_by_line(b"\n".join((*lines, b"")), b":")
        doubtful = np.flatnonzero(found != _count_by_line(encoded, b":"))
        return all(self._has_unique_keys_untyped(lines[place]) for place in doubtful.tolist())

    def _has_unique_keys_untyped(self, line: bytes) -> bool:
        if line.count(b"{") + line.count(b"[") > self._limits.depth:
            return False
        try:
            untyped = self._decode_untyped(line)
        except msgspec.MsgspecError:
            # What types skip unread, such as 1e400, may be no value at all.
            return False
        return line.count(b":") == self._encoder.encode(untyped).count(b":")

    def _is_shallow(self, data: bytes) -> bool:
        """Return whether no record is nested too deeply; only lines with many brackets can be."""
        limit = self._limits.depth
        many = np.flatnonzero(_count_by_line(data, b"[{") > limit)
        if not many.size:
            return True
        lines = data.split(b"\n")
        try:
            return all(depth(self._decode_untyped(lines[at])) <= limit for at in many.tolist())
        except (msgspec.MsgspecError, RecursionError):
            return False

    def _read_slow(self, lines: Sequence[bytes]) -> Iterator[list[object]]:
        """Yield the runs of valid records between refused lines."""
        batch: list[object] = []
        numbers: list[int] = []
        for line in lines:
            self.line_count += 1
            if not line.strip():
                continue
            record, problems = self._admit_line(line)
            if problems:
                self.batch_lines = numbers
                yield batch
                batch, numbers = [], []
                self._refuse(problems)
            else:
                batch.append(record)
                numbers.append(self.line_count)
        self.batch_lines = numbers
        yield batch

    def _admit_line(self, line: bytes) -> tuple[object, tuple[Problem, ...]]:
        """Return the record of a line, or its problems."""
        batch = self._read_fast(line, (line,), 1)
        if batch:
            return batch[0], ()
        problems = self._shape.problems(line, self._limits.depth)
        return None if problems else self._decode(line), problems

    def _refuse(self, problems: tuple[Problem, ...]) -> None:
        self.rejected += 1
        if len(self.refusals) < self._max_refusals:
            self.refusals.append(RefusedLine(self.line_count, problems))


def object_lines(data: bytes) -> int | None:
    """Return the number of lines if each begins and ends with a brace; else None.

    Between such lines a value must end: no JSON has an opening brace right after a closing one.
    So where there are as many values as lines, each line is one value.
    """
    if not (data.startswith(b"{") and data.endswith(b"}\n")):
        return None
    found = np.frombuffer(data, dtype=np.uint8)
    newlines = np.flatnonzero(found == _NEWLINE)
    inner = newlines[:-1]
    is_between = (found[inner - 1] == _CLOSING) & (found[inner + 1] == _OPENING)
    return int(newlines.size) if bool(is_between.all()) else None


def _decode_each(
    decoder: msgspec.json.Decoder[object], data: bytes, lines: Sequence[bytes] | None
) -> list[object]:
    if lines is None:
        return decoder.decode_lines(data)
    decode = decoder.decode
    return [decode(line) for line in lines if line]


def _has_escaped_colon(data: bytes) -> bool:
    # Most blocks have no escape, or none that begins like this.
    if b"\\" not in data or b"\\u003" not in data:
        return False
    return b"\\u003a" in data or b"\\u003A" in data


def _find_signs(data: bytes, signs: bytes) -> npt.NDArray[np.bool_]:
    found = np.frombuffer(data, dtype=np.uint8)
    is_one: npt.NDArray[np.bool_] = found == signs[0]
    for sign in signs[1:]:
        is_one |= found == sign
    return is_one


def _count_signs(data: bytes, signs: bytes) -> int:
    return int(np.count_nonzero(_find_signs(data, signs)))


def _count_by_line(lines: bytes, signs: bytes) -> npt.NDArray[np.int64]:
    """Return how many of these signs each line has, with what follows the last line break."""
    ends = np.append(np.flatnonzero(_find_signs(lines, b"\n")), len(lines))
    places = np.flatnonzero(_find_signs(lines, signs))
    return np.diff(np.searchsorted(places, ends), prepend=0)
