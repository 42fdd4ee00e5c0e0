"""Count merged pairs by column, where many lines are written alike.

This is a shortcut: a line is counted here only if the bytes around its texts are those of a line
that the exact reader accepted, and its texts have no escapes. Such a line differs from the accepted
one in nothing but its texts. Whatever else a text could change (an unknown label, a long reason,
personal data, a refusal, a citation that was not retrieved) makes the line an odd one. Odd lines
are read and counted as records; where they are many, or one of them is bad, so are all lines of the
block. Reading records takes about three times as long (``bench agreement``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from gatemark.evidence.hygiene import suspicious_bytes
from gatemark.exams.agreement.plain_files import (
    MAX_ID_BYTES,
    Bytes,
    Places,
    Words,
    coded,
    may_be_copies,
    same,
    texts,
)
from gatemark.exams.agreement.records import JudgementPair
from gatemark.exams.agreement.rules import CLEAR, AgreementExamState, RowExam, red_flag

Admit = Callable[[bytes], list[JudgementPair] | None]
"""Return the records of some lines; None if one of them is bad."""

_PADDING: Final = 1024
_MAX_FORMS: Final = 64
_MAX_ODD: Final = 4
"""One in this many lines, at most, is read as a record before all are."""
_MAX_FAILURES: Final = 4
_NEWLINE, _SPACE, _QUOTE, _AT, _ESCAPE, _DELETE = b'\n "@\\\x7f'
_DIGIT_RUN, _WORD_RUN = 9, 18
"""As in ``evidence.hygiene``: shorter runs are neither a number nor a key."""
_KEYS: Final = frozenset(
    ("qid", "scholar", "auditor", "answer_json", "retrieved_ids", "flags", "schema")
)
_ANSWER_KEYS: Final = frozenset(("claim", "citations", "constraints_echo"))

Span = tuple[Places, Places]
"""The first byte of each text, and the one behind it."""


class _LineForm(NamedTuple):
    """How lines are written: the bytes around the texts, and which text is what.

    ``texts`` has the place of each text among the strings of a line, ``gaps`` what stands before
    each text and after the last. The other fields are places in ``texts``.
    """

    string_count: int
    texts: tuple[int, ...]
    gaps: tuple[bytes, ...]
    qid: int
    labels: tuple[int, int]
    reasons: tuple[int | None, int | None]
    claim: int | None
    cited: tuple[int, ...]
    retrieved: tuple[int, ...]


class _Block:
    """Some whole lines: where lines, strings and odd signs are."""

    def __init__(self, data: bytes) -> None:
        self.data, self._padded = data, data + bytes(_PADDING)
        self.signs: Bytes = np.frombuffer(data, dtype=np.uint8)
        self.ends = np.flatnonzero(self.signs == _NEWLINE)
        self.starts = np.concatenate((np.zeros(1, dtype=np.int64), self.ends[:-1] + 1))
        self.quotes = np.flatnonzero(self.signs == _QUOTE)
        until = np.searchsorted(self.quotes, self.ends)
        self.quote_counts = np.diff(until, prepend=0)
        self.first_quotes = until - self.quote_counts
        self.words: Words = np.ndarray(len(data), dtype="<u8", buffer=self._padded, strides=(1,))

    def unusual(self) -> npt.NDArray[np.bool_]:
        """Tell which lines have an escape or a control character."""
        found = np.zeros(self.ends.size, dtype=np.bool_)
        is_control = self.signs < _SPACE
        if np.count_nonzero(is_control) != self.ends.size:
            places = np.flatnonzero(is_control & (self.signs != _NEWLINE))
            found[np.searchsorted(self.ends, places)] = True
        for sign in (_ESCAPE, _DELETE):
            if sign in self.data:
                places = np.flatnonzero(self.signs == sign)
                found[np.searchsorted(self.ends, places)] = True
        return found

    def stretches(self, starts: Places, size: int) -> Bytes:
        """Return the bytes from each start on, a line each."""
        found = np.ndarray(len(self.data), dtype=f"V{size}", buffer=self._padded, strides=(1,))
        return found[starts].view(np.uint8).reshape(starts.size, size)

    def are(self, starts: Places, ends: Places, wanted: bytes) -> npt.NDArray[np.bool_]:
        """Tell where the bytes between are the wanted ones."""
        alike: npt.NDArray[np.bool_] = ends - starts == len(wanted)
        found = self.stretches(starts, len(wanted))
        if found.tobytes() == wanted * starts.size:
            return alike
        alike &= (found == np.frombuffer(wanted, dtype=np.uint8)).all(axis=1)
        return alike

    def text(self, span: Span, row: int) -> bytes:
        return self.data[int(span[0][row]) : int(span[1][row])]


class PairColumns:
    """Counts blocks of lines for one shard; remembers how its lines are written."""

    def __init__(self, exam: RowExam, admit: Admit) -> None:
        self._exam, self._admit = exam, admit
        self._labels = [label.encode() for label in exam.space.labels]
        size = len(self._labels)
        self._codes = np.array(list(exam.space.codes.values()), dtype="<u2").reshape(size, size)
        self._refused = _members(exam.space.both("refuse"), self._codes)
        self._accepted = _members(exam.space.both("accept"), self._codes)
        self._token = exam.options.refusal_token.encode()
        self._forms: list[_LineForm] = []
        self._failures = 0

    def count(self, state: AgreementExamState, data: bytes) -> list[bytes] | None:
        """Count some lines into ``state`` and return their ids; None if nothing was counted."""
        if self._failures == _MAX_FAILURES:
            return None
        names = self._counted(state, data)
        self._failures = self._failures + 1 if names is None else 0
        return names

    def _counted(self, state: AgreementExamState, data: bytes) -> list[bytes] | None:
        if b"-----BEGIN" in data or not data.endswith(b"\n"):
            return None
        if not data.isascii():
            try:
                data.decode()
            except UnicodeDecodeError:
                return None
        block = _Block(data)
        rows = _Rows(block)
        for form in self._forms:
            self._take(block, form, rows)
        while rows.left.any() and len(self._forms) < _MAX_FORMS:
            row = int(np.argmax(rows.left))
            learned = self._learned(data[block.starts[row] : block.ends[row] + 1])
            if learned is not None:
                self._forms.append(learned)
                self._take(block, learned, rows)
            if rows.left[row]:
                rows.set_odd(row)
            if rows.odd_count * _MAX_ODD > block.ends.size:
                return None
        rows.is_odd |= rows.left
        return self._with_odd(state, block, rows)

    def _with_odd(
        self, state: AgreementExamState, block: _Block, rows: _Rows
    ) -> list[bytes] | None:
        """Read the odd lines as records; add all lines to the state."""
        names, odd, shard = rows.names.tolist(), np.flatnonzero(rows.is_odd), state.shard
        if odd.size * _MAX_ODD > block.ends.size:
            return None
        if odd.size:
            lines = [block.data[block.starts[row] : block.ends[row] + 1] for row in odd.tolist()]
            records = self._admit(b"".join(lines))
            if records is None:
                return None
            part = self._exam.step(self._exam.zero(shard), records)
            rows.codes[odd] = np.frombuffer(part.codes.pop(shard), dtype="<u2")
            for row, name in zip(odd.tolist(), part.names.pop(shard).split(b"\n"), strict=False):
                names[row] = name
            self._exam.add_findings(state, part)
        state.copied_count += rows.copied_count(self._exam)
        state.names.setdefault(shard, bytearray()).extend(b"\n".join(names) + b"\n")
        state.codes.setdefault(shard, bytearray()).extend(rows.codes.tobytes())
        return names

    def _learned(self, line: bytes) -> _LineForm | None:
        """Return how a line is written if the exact reader accepts it and nothing is odd in it."""
        records = self._admit(line)
        if not records or red_flag(records[0]) != CLEAR:
            return None
        return _form_of(line.removesuffix(b"\n"))

    def _take(self, block: _Block, form: _LineForm, rows: _Rows) -> None:
        """Fill the columns of the lines that have this form."""
        chosen = np.flatnonzero(rows.left & (block.quote_counts == 2 * form.string_count))
        if not chosen.size:
            return
        first = block.first_quotes[chosen]
        spans = [
            (block.quotes[first + 2 * place] + 1, block.quotes[first + 2 * place + 1])
            for place in form.texts
        ]
        before = [block.starts[chosen], *(ends for _, ends in spans)]
        after = [*(starts for starts, _ in spans), block.ends[chosen]]
        alike = np.ones(chosen.size, dtype=np.bool_)
        for start, end, gap in zip(before, after, form.gaps, strict=True):
            alike &= block.are(start, end, gap)
        if not alike.all():
            chosen = chosen[alike]
            spans = [(starts[alike], ends[alike]) for starts, ends in spans]
        if chosen.size:
            rows.left[chosen] = False
            self._fill(block, form, rows, chosen, spans)

    def _fill(
        self,
        block: _Block,
        form: _LineForm,
        rows: _Rows,
        chosen: Places,
        spans: Sequence[Span],
    ) -> None:
        starts, ends = spans[form.qid]
        sizes = ends - starts
        is_odd = (sizes < 1) | (sizes > MAX_ID_BYTES)
        names = texts(block.words, starts, starts + np.clip(sizes, 1, MAX_ID_BYTES))
        first, second = (coded(block.words, *spans[place], self._labels) for place in form.labels)
        unknown = len(self._labels)
        is_odd |= (first == unknown) | (second == unknown)
        codes = self._codes[np.minimum(first, unknown - 1), np.minimum(second, unknown - 1)]
        reasons = [spans[place] for place in form.reasons if place is not None]
        for reason in reasons:
            is_odd |= self._odd_reasons(block, reason)
        if form.claim is not None:
            is_odd |= self._odd_claims(block, spans[form.claim], codes)
        for place in form.cited:
            left = np.arange(chosen.size)
            for other in form.retrieved:
                pair = [(starts[left], ends[left]) for starts, ends in (spans[place], spans[other])]
                left = left[~_are_equal(block.words, pair[0], pair[1])]
                if not left.size:
                    break
            is_odd[left] = True
        if names.dtype.itemsize > rows.names.dtype.itemsize:
            rows.names = rows.names.astype(names.dtype)
        rows.names[chosen] = names
        rows.codes[chosen] = codes
        rows.is_odd[chosen] = is_odd
        if len(reasons) == 2:
            rows.add_reasons(~is_odd, reasons[0], reasons[1])

    def _odd_reasons(self, block: _Block, span: Span) -> npt.NDArray[np.bool_]:
        """Tell which reasons may be too long or contain personal data."""
        starts, sizes = span[0], span[1] - span[0]
        is_odd = sizes > min(self._exam.options.reason_max, _PADDING - 1)
        short = np.where(is_odd, 0, sizes).astype(np.uint16)
        width = int(short.max()) + 1
        signs = block.stretches(starts, width)
        signs *= np.arange(width, dtype=np.uint16) < short[:, np.newaxis]
        flat = signs.ravel()
        is_digit = flat - 48 < 10
        # All signs of a number or a key, and some others; such texts are ruled out below.
        in_number = (flat - 40 < 18) | (flat == _SPACE)
        in_key = flat - 45 < 83
        runs = _runs(in_number, _DIGIT_RUN)
        runs &= is_digit[: runs.size]
        found = [np.flatnonzero(runs), np.flatnonzero(_runs(in_key, _WORD_RUN))]
        if b"@" in block.data:
            found.append(np.flatnonzero(flat == _AT))
        rows = np.unique(np.concatenate(found) // width)
        some = [block.text(span, row) for row in rows.tolist()]
        if suspicious_bytes(b"\n".join(some)):
            is_odd[rows[[suspicious_bytes(text) for text in some]]] = True
        return is_odd

    def _odd_claims(
        self, block: _Block, span: Span, codes: npt.NDArray[np.uint16]
    ) -> npt.NDArray[np.bool_]:
        """Tell which claims are a refusal where they should not be, or the other way round."""
        starts, sizes = span[0], span[1] - span[0]
        is_token = np.zeros(sizes.size, dtype=np.bool_)
        as_long = np.flatnonzero(sizes == len(self._token))
        is_token[as_long] = same(block.words, starts[as_long], self._token)
        is_odd = (is_token & self._accepted[codes]) | (
            ~is_token & self._refused[codes] & (sizes > 0)
        )
        longest = 4 * self._exam.longest_refusal
        if block.data.isascii():
            longest = self._exam.longest_refusal
        for row in np.flatnonzero(~is_token & ~is_odd & (sizes > 0) & (sizes <= longest)).tolist():
            is_odd[row] = self._exam.is_refusal(block.text(span, row).decode())
        return is_odd


class _Rows:
    """The columns of a block. ``left`` are lines whose form is not known yet."""

    def __init__(self, block: _Block) -> None:
        count = block.ends.size
        self._block = block
        self.is_odd = block.unusual()
        self.left = ~self.is_odd
        self.names = np.zeros(count, dtype="S8")
        self.codes = np.zeros(count, dtype="<u2")
        self._reasons: list[tuple[Span, Span]] = []

    @property
    def odd_count(self) -> int:
        return int(np.count_nonzero(self.is_odd))

    def set_odd(self, row: int) -> None:
        self.is_odd[row], self.left[row] = True, False

    def add_reasons(self, chosen: npt.NDArray[np.bool_], first: Span, second: Span) -> None:
        """Note the reasons of lines that are not odd; those of odd lines are counted as records."""
        one = first[0][chosen], first[1][chosen]
        self._reasons.append((one, (second[0][chosen], second[1][chosen])))

    def copied_count(self, exam: RowExam) -> int:
        block, total = self._block, 0
        for first, second in self._reasons:
            alike = may_be_copies(
                (block.signs, first[0], first[1] - first[0]),
                (block.signs, second[0], second[1] - second[0]),
            )
            for row in alike.tolist():
                one, other = block.text(first, row).decode(), block.text(second, row).decode()
                total += exam.is_copied(one, other)
        return total


def _members(codes: frozenset[int], known: npt.NDArray[np.uint16]) -> npt.NDArray[np.bool_]:
    found = np.zeros(int(known.max()) + 1, dtype=np.bool_)
    found[list(codes)] = True
    return found


def _runs(flags: npt.NDArray[np.bool_], size: int) -> npt.NDArray[np.bool_]:
    """Tell where a run of so many true flags begins."""
    have = 1
    while have < size:
        step = min(have, size - have)
        flags = flags[:-step] & flags[step:]
        have += step
    return flags


def _are_equal(words: Words, one: Span, other: Span) -> npt.NDArray[np.bool_]:
    """Tell where two texts are equal; long ones count as different."""
    sizes = one[1] - one[0]
    alike: npt.NDArray[np.bool_] = (
        (sizes == other[1] - other[0]) & (sizes <= MAX_ID_BYTES) & (sizes > 0)
    )
    ends = [starts + np.clip(sizes, 1, MAX_ID_BYTES) for starts in (one[0], other[0])]
    first, second = texts(words, one[0], ends[0]), texts(words, other[0], ends[1])
    alike &= first == second
    return alike


def _form_of(line: bytes) -> _LineForm | None:
    """Return how a line without escapes is written; None if it has more than the usual keys."""
    pieces = line.split(b'"')
    strings, rests = pieces[1::2], pieces[2::2]
    is_key = [rest.lstrip().startswith(b":") for rest in rests]
    # The name of the schema is always the same text, like a key.
    is_fixed = [
        key or (place > 0 and is_key[place - 1] and strings[place - 1] == b"schema")
        for place, key in enumerate(is_key)
    ]
    places = [place for place, fixed in enumerate(is_fixed) if not fixed]
    # With its number in place of each text, the line itself tells which text is what.
    marked, gaps, gap = pieces[0], [], pieces[0]
    for place, (text, rest) in enumerate(zip(strings, rests, strict=True)):
        if is_fixed[place]:
            gap += b'"' + text + b'"' + rest
            marked += b'"' + text + b'"' + rest
        else:
            gaps.append(gap + b'"')
            gap = b'"' + rest
            marked += b'"%d"' % places.index(place) + rest
    gaps.append(gap)
    if max(map(len, gaps)) >= _PADDING:
        return None
    try:
        record = msgspec.json.decode(marked, type=dict[str, object])
        return _placed(record, len(strings), tuple(places), tuple(gaps))
    except (msgspec.MsgspecError, TypeError, ValueError):
        return None


def _placed(
    record: Mapping[str, object],
    string_count: int,
    places: tuple[int, ...],
    gaps: tuple[bytes, ...],
) -> _LineForm | None:
    """Return the form of a record whose texts are their numbers."""
    sides = msgspec.convert(
        [record["scholar"], record["auditor"]], tuple[dict[str, int], dict[str, int]], strict=False
    )
    answer = msgspec.convert(record.get("answer_json") or {}, dict[str, object])
    if not record.keys() <= _KEYS or not answer.keys() <= _ANSWER_KEYS:
        return None
    if any(not side.keys() <= {"label", "reason"} for side in sides):
        return None

    def numbers(value: object) -> tuple[int, ...]:
        return msgspec.convert(value or (), tuple[int, ...], strict=False)

    claim = answer.get("claim")
    return _LineForm(
        string_count=string_count,
        texts=places,
        gaps=gaps,
        qid=msgspec.convert(record["qid"], int, strict=False),
        labels=(sides[0]["label"], sides[1]["label"]),
        reasons=(sides[0].get("reason"), sides[1].get("reason")),
        claim=None if claim is None else msgspec.convert(claim, int, strict=False),
        cited=numbers(answer.get("citations")),
        retrieved=numbers(record.get("retrieved_ids")),
    )
