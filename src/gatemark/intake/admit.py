"""Admission: blocks of lines become typed records, and every line is accounted for.

The fast path decodes a whole block and only notices that something is wrong; the slow path
then goes line by line and says what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from gatemark.core.record import Form, Problem, RecordSchema
from gatemark.intake.limits import Limits
from gatemark.intake.lines import Block
from gatemark.intake.shape import Shape, shape_of
from gatemark.intake.whole_keys import key_count, whole_type

_COLON = ord(":")
_WHOLE_TRIES = 8


class RefusedLine(msgspec.Struct, frozen=True):
    """A line that did not become a record; ``line`` counts from 1 within the shard."""

    line: int
    problems: tuple[Problem, ...]


class Admission:
    """Turns blocks into records while keeping count. One per shard.

    Lines are all of one form, or of the several forms of a tagged schema.
    ``received == accepted + rejected`` holds after every block; blank lines are not received.
    """

    def __init__(
        self,
        expected: Form | RecordSchema | Shape,
        limits: Limits,
        *,
        check_duplicate_keys: bool,
        max_refusals: int,
    ) -> None:
        shape = shape_of(expected) if isinstance(expected, Form | RecordSchema) else expected
        self._shape = shape
        self._limits = limits
        self._check_keys = check_duplicate_keys
        self._max_refusals = max_refusals
        self._decode = shape.decode
        self._decode_untyped: Callable[[bytes], Any] = msgspec.json.Decoder().decode
        whole = None
        if check_duplicate_keys and isinstance(expected, Form):
            whole = whole_type(expected.type)
        self._whole_keys = 0 if whole is None else whole.key_count
        self._decode_whole: Callable[[bytes], Any] | None = (
            None if whole is None else msgspec.json.Decoder(whole.type).decode
        )
        self._whole_tries = _WHOLE_TRIES
        self._encoder = msgspec.json.Encoder()
        self.line_count = 0
        self.accepted = 0
        self.rejected = 0
        self.batch_lines: Sequence[int] = ()
        self.refusals: list[RefusedLine] = []

    @property
    def received(self) -> int:
        """How many lines were not blank."""
        return self.accepted + self.rejected

    def records(self, blocks: Iterator[Block]) -> Iterator[list[Any]]:
        """The good records of each block, in order; refusals are kept aside.

        While a batch is being looked at, ``batch_lines`` tells the line of each of its records.
        """
        for block in blocks:
            if block.overlong:
                self.line_count += 1
                limit = self._limits.line_bytes
                self._refuse((Problem("$", f"line is longer than {limit} bytes"),))
                continue
            lines = block.data.removesuffix(b"\n").split(b"\n")
            batch = self._fast(block.data, lines)
            if batch is None:
                batch = self._slow(lines)
            else:
                self._number_lines(lines, len(batch))
            self.accepted += len(batch)
            if batch:
                yield batch

    def _fast(self, data: bytes, lines: Sequence[bytes]) -> list[Any] | None:
        """All records of some lines, or None when any of them needs a closer look."""
        try:
            if not data.isascii():
                data.decode("utf-8")
            batch = self._fast_whole(data, lines)
            keys_are_unique = batch is not None or not self._check_keys
            if batch is None:
                decode = self._decode
                batch = [decode(line) for line in lines if line]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        if not keys_are_unique and not self._keys_are_unique(data, batch):
            return None
        return batch if self._shape.keeps_rules(batch) else None

    def _fast_whole(self, data: bytes, lines: Sequence[bytes]) -> list[Any] | None:
        """All records of some lines that have every key exactly once, or None.

        Lines that leave out optional keys make the attempt useless, so it is given up for a file
        that keeps failing it.
        """
        decode = self._decode_whole
        if decode is None or (found := key_count(data)) is None:
            return None
        if found == self._whole_keys * len(lines):
            try:
                return [decode(line) for line in lines if line]
            except msgspec.ValidationError:
                pass
        self._whole_tries -= 1
        if self._whole_tries == 0:
            self._decode_whole = None
        return None

    def _number_lines(self, lines: Sequence[bytes], record_count: int) -> None:
        """Note which lines a good block's records stood on; blank lines are rare."""
        first = self.line_count + 1
        self.line_count += len(lines)
        if record_count == len(lines):
            self.batch_lines = range(first, self.line_count + 1)
        else:
            self.batch_lines = [first + index for index, line in enumerate(lines) if line]

    def _keys_are_unique(self, data: bytes, batch: list[Any]) -> bool:
        """Prove that no object in the block repeats a key, or fail to.

        Every key occurrence brings one colon. Encoding the decoded records again brings the
        colons of unique keys and of the same strings, so equal counts leave no room for a
        repeated key. An escaped colon could hide one in a string, so escapes forgo the proof.
        Typed records leave out keys that only repeat a default; where lines write those, the
        same is proved of the untyped values, unless they could be nested too deeply.
        """
        if b"\\" in data and b"\\u" in data:
            return False
        found = _colon_count(data)
        if found == _colon_count(self._encoder.encode_lines(batch)):
            return True
        lines = [line for line in data.split(b"\n") if line]
        if any(line.count(b"{") + line.count(b"[") > self._limits.depth for line in lines):
            return False
        untyped = [self._decode_untyped(line) for line in lines]
        return found == _colon_count(self._encoder.encode_lines(untyped))

    def _slow(self, lines: Sequence[bytes]) -> list[Any]:
        batch = []
        numbers = []
        for line in lines:
            self.line_count += 1
            if not line.strip():
                continue
            record = self._admit_line(line)
            if record is not None:
                batch.append(record)
                numbers.append(self.line_count)
        self.batch_lines = numbers
        return batch

    def _admit_line(self, line: bytes) -> Any | None:
        batch = self._fast(line, (line,))
        if batch:
            return batch[0]
        problems = self._shape.problems(line, self._limits.depth)
        if not problems:
            return self._decode(line)
        self._refuse(problems)
        return None

    def _refuse(self, problems: tuple[Problem, ...]) -> None:
        self.rejected += 1
        if len(self.refusals) < self._max_refusals:
            self.refusals.append(RefusedLine(self.line_count, problems))


def _colon_count(data: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == _COLON))
