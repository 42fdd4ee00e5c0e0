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
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from gatemark.evidence.hygiene import suspicious_bytes
from gatemark.evidence.source import ReadingChoices, Source
from gatemark.exams.agreement.rules import BARE_RULES, AgreementExamState, LabelSpace, RowExam

_BLOCK_BYTES: Final = 512 * 1024
_MAX_BYTES: Final = 2 * 1024**3
MAX_ID_BYTES: Final = 64
_NEWLINE, _SPACE, _QUOTE = b'\n "'
_KEYS: Final = frozenset(("qid", "label", "reason"))

_WORD: Final = 8
_MASKS: Final = np.array([(1 << 8 * size) - 1 for size in range(_WORD + 1)], dtype=np.uint64)
"""The first bytes of a word, by their number."""

_FIRST_SIGNS: Final = np.array(
    [ord(chr(code).lower()) * (code < 128 and chr(code).isalnum()) for code in range(256)],
    dtype=np.uint8,
)
"""Letters in small ones, digits, and 0 for all other bytes."""

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]


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
    sides: tuple[PlainSide, PlainSide]
    places: tuple[Places, Places]

    def name_list(self) -> list[str]:
        return _joined_lines(self.names).decode().removesuffix("\n").split("\n")


def plain_rows(
    sources: Sequence[Source], exam: RowExam, choices: ReadingChoices
) -> PlainRows | None:
    """Return the rows of two plain files, or None if they must be read record by record."""
    if exam.options.rules < BARE_RULES:
        return None
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
    return PlainRows(names, (first, second), (orders[0], orders[1]))


def count_plain(exam: RowExam, state: AgreementExamState, rows: PlainRows) -> None:
    """Count the rows into ``state``, as ``RowExam.count`` does."""
    (first, second), (one, other), space = rows.sides, rows.places, exam.space
    size = len(space.labels)
    table = np.array(list(space.codes.values()), dtype="<u2").reshape(size, size)
    state.codes[state.shard] = bytearray(table[first.labels[one], second.labels[other]].tobytes())
    state.names[state.shard] = bytearray(_joined_lines(rows.names))
    state.copied_count += _copied_count(exam, rows)
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


def _joined_lines(names: npt.NDArray[np.bytes_]) -> bytes:
    width = names.dtype.itemsize
    lines = np.zeros((names.size, width + 1), dtype=np.uint8)
    lines[:, :width] = np.frombuffer(names.tobytes(), dtype=np.uint8).reshape(names.size, width)
    lines[:, width] = _NEWLINE
    # Ids have no control characters, so that only padding is left out.
    return lines.tobytes().replace(b"\0", b"")


def _copied_count(exam: RowExam, rows: PlainRows) -> int:
    (first, second), (one, other) = rows.sides, rows.places
    if first.reasons is None or second.reasons is None:
        return 0
    starts, sizes = first.reasons[0][one], first.reasons[1][one]
    other_starts, other_sizes = second.reasons[0][other], second.reasons[1][other]
    signs = np.frombuffer(first.data, np.uint8), np.frombuffer(second.data, np.uint8)
    alike = may_be_copies((signs[0], starts, sizes), (signs[1], other_starts, other_sizes))
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
    line = _written_like(data[: data.find(b"\n")])
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


def _written_like(line: bytes) -> _Line | None:
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
    return _Line(keys, around)


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
        block = self._data[start:end]
        found = np.frombuffer(block, dtype=np.uint8)
        words = _words(block)
        spans = self._spans(block, found, words)
        if spans is None:
            return False
        columns = dict(zip(self._line.keys, spans, strict=True))
        starts, ends = columns["qid"]
        sizes = ends - starts
        if int(sizes.min()) < 1 or int(sizes.max()) > MAX_ID_BYTES:
            return False
        names = texts(words, starts, ends)
        codes = coded(words, *columns["label"], self._labels)
        if bool((codes == len(self._labels)).any()):
            return False
        if "reason" in columns:
            self._add_reasons(block, start, *columns["reason"])
        self._names.append(names)
        self._codes.append(codes)
        self._count += names.size
        return True

    def _spans(
        self, block: bytes, found: Bytes, words: Words
    ) -> list[tuple[Places, Places]] | None:
        """Return the first byte and the end of each text by key, if the lines are plain."""
        if b"\\" in block or b"\x7f" in block:
            return None
        if not block.isascii():
            try:
                block.decode()
            except UnicodeDecodeError:
                return None
        quotes, per_line = np.flatnonzero(found == _QUOTE), 4 * len(self._line.keys)
        count = block.count(b"\n")
        if quotes.size != count * per_line or np.count_nonzero(found < _SPACE) != count:
            return None
        marks = quotes.reshape(count, per_line)
        spans = [(marks[:, key + 2] + 1, marks[:, key + 3]) for key in range(0, per_line, 4)]
        ends = spans[-1][1]
        stretches = [
            *((spans[key][1], spans[key + 1][0], piece) for key, piece in enumerate(self._inner)),
            (ends[:-1], spans[0][0][1:], self._between),
        ]
        head, tail = self._line.around[0], self._line.around[-1] + b"\n"
        is_plain = block.startswith(head) and int(spans[0][0][0]) == len(head)
        is_plain = is_plain and block[int(ends[-1]) :] == tail
        longest = int(np.diff(ends, prepend=-len(tail)).max())
        if not is_plain or longest > self._line_bytes:
            return None
        return spans if all(_are(words, *stretch) for stretch in stretches) else None

    def _add_reasons(self, block: bytes, offset: int, starts: Places, ends: Places) -> None:
        sizes = ends - starts
        rows = np.arange(self._count, self._count + sizes.size)
        self._starts.append(starts + offset)
        self._sizes.append(sizes)
        if not suspicious_bytes(block):
            rows = rows[sizes > self._reason_max]
        self._doubtful.append(rows)

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


def _words(block: bytes) -> Words:
    """Return the eight bytes from each place on as a number, to compare eight at a time."""
    return np.ndarray(len(block), dtype="<u8", buffer=block + bytes(_WORD), strides=(1,))


def _are(words: Words, starts: Places, ends: Places, wanted: bytes) -> bool:
    """Tell whether the bytes from each start up to each end are the wanted ones."""
    return bool((ends - starts == len(wanted)).all()) and bool(same(words, starts, wanted).all())


def same(words: Words, starts: Places, wanted: bytes) -> npt.NDArray[np.bool_]:
    """Tell for each start whether the wanted bytes follow."""
    same = np.ones(starts.size, dtype=np.bool_)
    for place in range(0, len(wanted), _WORD):
        piece = wanted[place : place + _WORD]
        number = np.uint64(int.from_bytes(piece, "little"))
        same &= (words[starts + place] & _MASKS[len(piece)]) == number
    return same


def coded(
    words: Words, starts: Places, ends: Places, labels: Sequence[bytes]
) -> npt.NDArray[np.uint16]:
    """Return the place of each text among the labels, or their number if it is none of them."""
    codes = np.full(starts.size, len(labels), dtype=np.uint16)
    sizes = ends - starts
    heads = words[starts] & _MASKS[np.minimum(sizes, _WORD)]
    for code, label in enumerate(labels):
        head = np.uint64(int.from_bytes(label[:_WORD], "little"))
        rows = np.flatnonzero((heads == head) & (sizes == len(label)))
        codes[rows[same(words, starts[rows] + _WORD, label[_WORD:])]] = code
    return codes


def texts(words: Words, starts: Places, ends: Places) -> npt.NDArray[np.bytes_]:
    """Return short texts, none of which is empty, as an array."""
    sizes = ends - starts
    count = -(-int(sizes.max()) // _WORD)
    signs = np.zeros((starts.size, count), dtype="<u8")
    for place in range(count):
        left = np.clip(sizes - place * _WORD, 0, _WORD)
        at = np.minimum(starts + place * _WORD, words.size - 1)
        signs[:, place] = words[at] & _MASKS[left]
    return signs.view(f"S{count * _WORD}").ravel()


def may_be_copies(
    first: tuple[Bytes, Places, Places], second: tuple[Bytes, Places, Places]
) -> Places:
    """Return the rows whose reasons may be the same; each side is its bytes, starts and sizes.

    As in ``RowExam.is_copied``: most reasons differ in their first letter.
    """
    told = np.flatnonzero((first[2] > 0) & (second[2] > 0))
    one, other = (_FIRST_SIGNS[signs[starts[told]]] for signs, starts, _ in (first, second))
    alike: Places = told[(one == other) | (one == 0) | (other == 0)]
    return alike
