"""Read two files of judgements by column, where every line is written like the first one.

This is a shortcut: ``plain_rows`` gives None as soon as anything is unusual, and ``two_files`` then
reads the files record by record, to the same result and with the same messages. A file is plain
when each line has the keys of its first line in the same order and spacing (``qid``, ``label`` and
perhaps ``reason``), no escapes, known labels, and no id twice; both files must have the same ids.
Between the quotation marks of such lines nothing can stand but the texts themselves, so comparing
the bytes around them proves that every line is a valid record without a repeated key. Reading
records takes about three times as long (``bench agreement``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from gatemark.evidence.inputs import normalize_ids
from gatemark.evidence.personal_data import suspicious_bytes
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.source import Source
from gatemark.exams.agreement.counting import AgreementExamState, RowExam
from gatemark.exams.agreement.rules import LabelSpace

_BLOCK_BYTES: Final = 512 * 1024
_MAX_BYTES: Final = 2 * 1024**3
MAX_ID_BYTES: Final = 64
PADDING: Final = 1024
"""How far a stretch of bytes may reach beyond the last line."""
MAX_GAP: Final = PADDING // 2
_NEWLINE, _SPACE, _QUOTE, _COMMA, _DASH, _AT = b'\n ",-@'
_DIGIT_RUN, _WORD_RUN, _DASH_RUN = 9, 18, 5
"""As in ``evidence.hygiene``: shorter runs are neither a number nor a key."""
_KEYS: Final = frozenset(("qid", "label", "reason"))

_PAIR: Final = 0x0101
"""Two true flags as one number."""
_WORD: Final = 8
MASKS: Final = np.array([(1 << 8 * size) - 1 for size in range(_WORD + 1)], dtype=np.uint64)
"""The first bytes of a word, by their number."""

_FIRST_SIGNS: Final = np.array(
    [ord(chr(code).lower()) * (code < 128 and chr(code).isalnum()) for code in range(256)],
    dtype=np.uint8,
)
"""Letters in small ones, digits, and 0 for all other bytes."""

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]
Span = tuple[Places, Places]
"""The first byte of each text, and the one behind it."""


class _Line(NamedTuple):
    """How lines are written: their keys, and the bytes around the texts.

    ``around`` has what stands before each text and after the last one, up to the line break.
    """

    keys: tuple[str, ...]
    around: tuple[bytes, ...]


class PlainSide(NamedTuple):
    """One file by column. ``reasons`` has the first byte and the length of each reason.

    ``doubtful`` are the places of reasons that may be too long or contain personal data.
    """

    data: bytes
    names: npt.NDArray[np.bytes_]
    labels: npt.NDArray[np.uint16]
    reasons: tuple[Places, Places] | None
    doubtful: Places

    def reason(self, place: int) -> str:
        if self.reasons is None:
            return ""
        starts, sizes = self.reasons
        start = int(starts[place])
        return self.data[start : start + int(sizes[place])].decode()


class PlainRows(NamedTuple):
    """Two files joined by id, in the order of ids; ``places`` are the rows in each file."""

    names: npt.NDArray[np.bytes_]
    listed: Sequence[str]
    sides: tuple[PlainSide, PlainSide]
    places: tuple[Places, Places]


_KEPT_BYTES: Final = 8 * 1024 * 1024


def keep_freed_memory() -> None:
    """Have the C library keep what one block frees for the next one.

    It gives memory back to the system beyond twice the largest block it ever freed. Getting it
    again, a page at a time, took a tenth of the time of reading (glibc).
    """
    bytes(_KEPT_BYTES)


def read_plain_rows(
    sources: Sequence[Source], exam: RowExam, choices: ReadingChoices
) -> PlainRows | None:
    """Return the rows of two plain files, or None if they must be read record by record."""
    keep_freed_memory()
    sides = []
    for source in sources:
        side = _read_side(source, exam.space, choices, exam.options.reason_max)
        if side is None:
            return None
        sides.append(side)
    orders = [_order(side.names) for side in sides]
    if orders[0] is None or orders[1] is None:
        return None
    first, second = sides
    names = first.names[orders[0]]
    if names.shape != second.names.shape or not np.array_equal(names, second.names[orders[1]]):
        return None
    listed = _join_lines(names).decode().removesuffix("\n").split("\n")
    keys = normalize_ids(listed)
    if keys is not listed and len(set(keys)) != len(keys):
        # Read as records, look-alikes are refused with their lines.
        return None
    return PlainRows(names, listed, (first, second), (orders[0], orders[1]))


def count_plain(exam: RowExam, state: AgreementExamState, rows: PlainRows) -> None:
    """Count the rows into ``state``, as ``RowExam.count`` does."""
    (first, second), (one, other), space = rows.sides, rows.places, exam.space
    size = len(space.labels)
    table = np.array(list(space.codes.values()), dtype="<u2").reshape(size, size)
    state.codes[state.shard] = bytearray(table[first.labels[one], second.labels[other]].tobytes())
    state.names[state.shard] = bytearray(_join_lines(rows.names))
    state.copied_count += _count_copied(exam, rows)
    doubtful = [
        (int(row), who)
        for who, (side, order) in enumerate(zip(rows.sides, rows.places, strict=True))
        for row in np.flatnonzero(np.isin(order, side.doubtful))
    ]
    for row, who in sorted(doubtful):
        side, place = rows.sides[who], int(rows.places[who][row])
        exam.check_reason(
            state, rows.names[row].decode(), ("scholar", "auditor")[who], side.reason(place)
        )


def _join_lines(names: npt.NDArray[np.bytes_]) -> bytes:
    width = names.dtype.itemsize
    lines = np.zeros((names.size, width + 1), dtype=np.uint8)
    lines[:, :width] = np.frombuffer(names.tobytes(), dtype=np.uint8).reshape(names.size, width)
    lines[:, width] = _NEWLINE
    # Ids have no control characters, so that only padding is left out.
    return lines.tobytes().replace(b"\0", b"")


def _count_copied(exam: RowExam, rows: PlainRows) -> int:
    (first, second), (one, other) = rows.sides, rows.places
    if first.reasons is None or second.reasons is None:
        return 0
    starts, sizes = first.reasons[0][one], first.reasons[1][one]
    other_starts, other_sizes = second.reasons[0][other], second.reasons[1][other]
    signs = np.frombuffer(first.data, np.uint8), np.frombuffer(second.data, np.uint8)
    alike = find_possible_copies((signs[0], starts, sizes), (signs[1], other_starts, other_sizes))
    return sum(
        exam.is_copied(
            first.data[start : start + size].decode(),
            second.data[other_start : other_start + other_size].decode(),
        )
        for start, size, other_start, other_size in zip(
            starts[alike].tolist(),
            sizes[alike].tolist(),
            other_starts[alike].tolist(),
            other_sizes[alike].tolist(),
            strict=True,
        )
    )


def _order(names: npt.NDArray[np.bytes_]) -> Places | None:
    """Return the places of names in order; None if one comes twice."""
    if bool((names[1:] > names[:-1]).all()):
        return np.arange(names.size)
    order = np.argsort(names, kind="stable")
    ordered = names[order]
    return None if bool((ordered[1:] == ordered[:-1]).any()) else order


def _read_side(
    source: Source, space: LabelSpace, choices: ReadingChoices, reason_max: int
) -> PlainSide | None:
    if source.compression != "none" or source.byte_count > min(
        _MAX_BYTES, choices.limits.total_bytes
    ):
        return None
    data = Path(source.path).read_bytes()
    if not data.endswith(b"\n"):
        data += b"\n"
    line = _learn_line(data[: data.find(b"\n")])
    if line is None:
        return None
    reader = _SideReader(data, line, space, choices.limits.line_bytes, reason_max)
    start = 0
    while start < len(data):
        end = data.rfind(b"\n", start, start + _BLOCK_BYTES) + 1
        if end <= start or not reader.add(start, end):
            return None
        start = end
    return reader.side()


def _learn_line(line: bytes) -> _Line | None:
    """Return how a line is written, if it is plain."""
    if b"\\" in line or len(line) > _BLOCK_BYTES:
        return None
    try:
        record = msgspec.json.decode(line, type=dict[str, str])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    pieces = line.split(b'"')
    keys = tuple(piece.decode() for piece in pieces[1::4])
    if not {"qid", "label"} <= set(keys) <= _KEYS or len(keys) != len(record):
        return None
    if len(keys) * 4 + 1 != len(pieces):
        return None
    before = [
        b'"'.join((*pieces[place : place + 3], b"")) for place in range(0, len(pieces) - 1, 4)
    ]
    # From the quotation mark that ends a text to the one that begins the next.
    around = (before[0], *(b'"' + piece for piece in before[1:]), b'"' + pieces[-1])
    return None if sum(map(len, around)) >= MAX_GAP else _Line(keys, around)


class _SideReader:
    """Reads the blocks of one file into columns."""

    def __init__(
        self, data: bytes, line: _Line, space: LabelSpace, line_bytes: int, reason_max: int
    ) -> None:
        self._data, self._line = data, line
        self._labels = [label.encode() for label in space.labels]
        self._line_bytes, self._reason_max = line_bytes, reason_max
        self._between = line.around[-1] + b"\n" + line.around[0]
        self._inner = line.around[1:-1]
        self._names: list[npt.NDArray[np.bytes_]] = []
        self._codes: list[npt.NDArray[np.uint16]] = []
        self._starts: list[Places] = []
        self._sizes: list[Places] = []
        self._doubtful: list[Places] = []
        self._count = 0

    def add(self, start: int, end: int) -> bool:
        """Read some lines; return False if one of them is not plain."""
        block = LineBytes(self._data[start:end])
        spans = self._find_spans(block)
        if spans is None:
            return False
        columns = dict(zip(self._line.keys, spans, strict=True))
        sizes = columns["qid"][1] - columns["qid"][0]
        if int(sizes.min()) < 1 or int(sizes.max()) > MAX_ID_BYTES:
            return False
        codes = encode_labels(block.words, columns["label"][0], self._labels)
        if bool((codes == len(self._labels)).any()):
            return False
        if "reason" in columns:
            starts, ends = columns["reason"]
            doubtful = np.flatnonzero(block.doubtful((starts, ends), self._reason_max))
            self._doubtful.append(doubtful + self._count)
            self._starts.append(starts + start)
            self._sizes.append(ends - starts)
        self._names.append(block.texts(columns["qid"]))
        self._codes.append(codes)
        self._count += sizes.size
        return True

    def _find_spans(self, block: LineBytes) -> list[Span] | None:
        """Return the first byte and the end of each text by key, if the lines are plain."""
        data, per_line = block.data, 4 * len(self._line.keys)
        if b"\\" in data or b"\x7f" in data:
            return None
        if not data.isascii():
            try:
                data.decode()
            except UnicodeDecodeError:
                return None
        quotes = np.flatnonzero(block.signs == _QUOTE)
        # As many control characters as lines: each is one of the line breaks looked at below.
        count = int(np.count_nonzero(block.signs < _SPACE))
        if quotes.size != count * per_line:
            return None
        marks = quotes.reshape(count, per_line)
        spans = [(marks[:, key + 2] + 1, marks[:, key + 3]) for key in range(0, per_line, 4)]
        ends = spans[-1][1]
        # What follows a text has as many quotation marks as every line has there. Where its bytes
        # are the wanted ones, the next text begins right behind them.
        gaps = [*((spans[key][1], piece) for key, piece in enumerate(self._inner))]
        gaps.append((ends[:-1], self._between))
        head, tail = self._line.around[0], self._line.around[-1] + b"\n"
        is_plain = data.startswith(head) and int(spans[0][0][0]) == len(head)
        is_plain = is_plain and data[int(ends[-1]) :] == tail
        longest = int(np.diff(ends, prepend=-len(tail)).max())
        if not is_plain or longest > self._line_bytes:
            return None
        return spans if all(bool(block.follow(*gap).all()) for gap in gaps) else None

    def side(self) -> PlainSide:
        """Return all blocks as one."""
        empty = np.zeros(0, dtype=np.int64)
        reasons = (
            (np.concatenate(self._starts), np.concatenate(self._sizes)) if self._starts else None
        )
        return PlainSide(
            self._data,
            np.concatenate(self._names),
            np.concatenate(self._codes),
            reasons,
            np.concatenate([empty, *self._doubtful]),
        )


class LineBytes:
    """Some whole lines, to be looked at in many places at once."""

    def __init__(self, data: bytes) -> None:
        self.data, self._padded = data, data + bytes(PADDING)
        self.signs: Bytes = np.frombuffer(data, dtype=np.uint8)
        # The eight bytes from each place on as a number, to compare eight at a time.
        size = len(data) + MAX_GAP
        self.words: Words = np.ndarray(size, "<u8", buffer=self._padded, strides=(1,))

    def stretches(self, starts: Places, size: int) -> npt.NDArray[np.void]:
        """Return the bytes from each start on; there are fewer than ``PADDING``."""
        found = np.ndarray(len(self.data), dtype=f"V{size}", buffer=self._padded, strides=(1,))
        return found[starts]

    def follow(self, starts: Places, wanted: bytes) -> npt.NDArray[np.bool_]:
        """Return where the wanted bytes follow; there are fewer than ``MAX_GAP``."""
        if _repeat_bits(wanted, starts.size.bit_length()).startswith(
            self.stretches(starts, len(wanted)).view(np.uint8).data
        ):
            return np.ones(starts.size, dtype=np.bool_)
        return match_bytes(self.words, starts, wanted)

    def text(self, span: Span, row: int) -> bytes:
        return self.data[int(span[0][row]) : int(span[1][row])]

    def texts(self, span: Span) -> npt.NDArray[np.bytes_]:
        """Return short texts, none of which is empty, as an array."""
        sizes = span[1] - span[0]
        width = int(sizes.max())
        found = self.stretches(span[0], width)
        if int(sizes.min()) < width:
            signs = found.view(np.uint8).reshape(sizes.size, width)
            signs *= np.arange(width, dtype=np.uint16) < sizes.astype(np.uint16)[:, np.newaxis]
        return found.view(f"S{width}")

    def doubtful(self, span: Span, reason_max: int) -> npt.NDArray[np.bool_]:
        """Return which reasons may be too long or contain personal data; never misses any."""
        sizes = span[1] - span[0]
        is_doubtful: npt.NDArray[np.bool_] = sizes > min(reason_max, PADDING - 1)
        left = np.flatnonzero((sizes > 0) & ~is_doubtful)
        while left.size:
            # Reasons of about the same length together: each takes as many bytes as the longest.
            some_sizes = sizes[left]
            width = int(some_sizes.max()) + 1
            is_near = some_sizes >= width // 4
            rows, left = (left, left[:0]) if is_near.all() else (left[is_near], left[~is_near])
            rows = rows[self._find_with_runs(span[0][rows], width)]
            some = [self.text(span, row) for row in rows.tolist()]
            if suspicious_bytes(b"\n".join(some)):
                is_doubtful[rows[[suspicious_bytes(text) for text in some]]] = True
        return is_doubtful

    def _find_with_runs(self, starts: Places, width: int) -> Places:
        """Return which stretches may have a run of signs that make a number or a key, or an @.

        What follows a text is looked at as well: its quotation mark ends every run.
        """
        width += width % 2
        signs = self.stretches(starts, width).view(np.uint8)
        # Pairs of signs first, which are half as many: few texts are left to be looked at closely.
        near = self._find_rows_with_runs(signs, width, 2)
        if not near.size:
            return near
        signs = signs.reshape(starts.size, width)[near].ravel()
        return near[self._find_rows_with_runs(signs, width, 1)]

    def _find_rows_with_runs(self, signs: Bytes, width: int, group: int) -> Places:
        """Return the rows with a run of whole groups, of which every run of signs has as many."""
        in_number = signs - np.uint8(40) < 18
        in_number &= signs != _COMMA
        in_number |= signs == _SPACE
        in_key = signs - np.uint8(45) < 83
        found = []
        for flags, size in (
            (in_number, _DIGIT_RUN),
            (in_key, _WORD_RUN),
            (signs == _DASH, _DASH_RUN),
        ):
            whole = flags if group == 1 else flags.view(np.uint16) == _PAIR
            runs = _find_runs(whole, (size - group + 1) // group)
            if flags is in_number and group == 1:
                runs &= (signs - np.uint8(48) < 10)[: runs.size]
            found.append(np.flatnonzero(runs) * group)
        if b"@" in self.data:
            found.append(np.flatnonzero(signs == _AT))
        return np.unique(np.concatenate(found) // width)


@lru_cache(maxsize=64)
def _repeat_bits(text: bytes, bits: int) -> bytes:
    return text * (1 << bits)


def _find_runs(flags: npt.NDArray[np.bool_], size: int) -> npt.NDArray[np.bool_]:
    """Return where a run of that many true flags begins."""
    have = 1
    while have < size:
        step = min(have, size - have)
        flags = flags[:-step] & flags[step:]
        have += step
    return flags


def match_bytes(words: Words, starts: Places, wanted: bytes) -> npt.NDArray[np.bool_]:
    """Return for each start whether the wanted bytes follow."""
    same = np.ones(starts.size, dtype=np.bool_)
    for place in range(0, len(wanted), _WORD):
        piece = wanted[place : place + _WORD]
        number = np.uint64(int.from_bytes(piece, "little"))
        same &= (words[starts + place] & MASKS[len(piece)]) == number
    return same


def encode_labels(words: Words, starts: Places, labels: Sequence[bytes]) -> npt.NDArray[np.uint16]:
    """Return the place of each text among the labels, or their number if it is none of them."""
    codes = np.full(starts.size, len(labels), dtype=np.uint16)
    heads = words[starts]
    for code, label in enumerate(labels):
        if b'"' in label:
            continue  # Only escaped could it be a text.
        # With the quotation mark that ends it, no other text begins like it.
        whole = label + b'"'
        head = whole[:_WORD]
        alike = (heads & MASKS[len(head)]) == np.uint64(int.from_bytes(head, "little"))
        if len(whole) > _WORD:
            rows = np.flatnonzero(alike)
            alike[rows] = match_bytes(words, starts[rows] + _WORD, whole[_WORD:])
        np.putmask(codes, alike, np.uint16(code))
    return codes


def find_possible_copies(
    first: tuple[Bytes, Places, Places], second: tuple[Bytes, Places, Places]
) -> Places:
    """Return the rows whose reasons may be the same; each side is its bytes, starts and sizes.

    As in ``RowExam.is_copied``: most reasons differ in their first letter.
    """
    both_given = np.flatnonzero((first[2] > 0) & (second[2] > 0))
    one, other = (_FIRST_SIGNS[signs[starts[both_given]]] for signs, starts, _ in (first, second))
    alike: Places = both_given[(one == other) | (one == 0) | (other == 0)]
    return alike
