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
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from gatemark.exams.agreement.counting import AgreementExamState, RowExam
from gatemark.exams.agreement.plain_files import (
    MASKS,
    MAX_GAP,
    MAX_ID_BYTES,
    LineBytes,
    Places,
    Span,
    Words,
    encode_labels,
    find_possible_copies,
    keep_freed_memory,
    match_bytes,
)
from gatemark.exams.agreement.records import JudgementPair
from gatemark.exams.agreement.rules import CLEAR, find_red_flag

Admit = Callable[[bytes], list[JudgementPair] | None]
"""Return the records of some lines; None if one of them is bad."""

_MAX_FORMS: Final = 64
_MAX_ODD: Final = 4
"""One in this many lines, at most, is read as a record before all are."""
_MAX_FAILURES: Final = 4
_NEWLINE, _SPACE, _QUOTE, _COMMA, _ESCAPE, _BRACE, _DELETE = b'\n ",\\}\x7f'
_CASE: Final = np.uint8(ord("}") ^ ord("]"))
_KEYS: Final = frozenset(
    ("qid", "scholar", "auditor", "answer_json", "retrieved_ids", "flags", "schema")
)
_ANSWER_KEYS: Final = frozenset(("claim", "citations", "constraints_echo"))


class _LineForm(NamedTuple):
    """How lines are written: the bytes around the texts, and which text is what.

    ``texts`` has the place of each text among the strings of a line, ``gaps`` what stands before
    each text and after the last, line break included. The other fields are places in ``texts``.
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


class _Block(LineBytes):
    """Some whole lines: where lines, strings and odd signs are.

    ``closing`` has the quotation marks of each line that seem to end a text, where all lines have
    equally many and end alike. It is looked for if ``is_even`` says that this is likely.
    """

    def __init__(self, data: bytes, *, is_even: bool) -> None:
        super().__init__(data)
        self.highest = int(self.signs.max())
        self._is_quote = self.signs == _QUOTE
        is_control = self.signs < _SPACE
        self.closing = (
            self._find_even_closing(int(np.count_nonzero(is_control))) if is_even else None
        )
        if self.closing is not None:
            self.ends = self.closing[:, -1] + (data.find(b"\n") - self.closing[0, -1])
            self._controls = self.ends[:0]
        else:
            controls = np.flatnonzero(is_control)
            is_end = self.signs[controls] == _NEWLINE
            self._controls, self.ends = controls[~is_end], controls[is_end]
        self.starts = np.concatenate((np.zeros(1, dtype=np.int64), self.ends[:-1] + 1))

    def _find_even_closing(self, count: int) -> Places | None:
        """Return what ``closing`` holds.

        There are ``count`` control characters. If so many line breaks are found where they should
        be, there is no other.
        """
        following = self.signs[1:]
        is_closing = (following | _CASE) == _BRACE
        is_closing |= following == _COMMA
        is_closing &= self._is_quote[:-1]
        found = np.flatnonzero(is_closing)
        per_line, rest = divmod(found.size, count)
        if rest or not per_line:
            return None
        closing = found.reshape(count, per_line)
        ends = closing[:, -1] + (self.data.find(b"\n") - closing[0, -1])
        if int(ends[-1]) != self.signs.size - 1 or bool((ends[:-1] >= closing[1:, 0]).any()):
            return None
        return closing if bool((self.signs[ends] == _NEWLINE).all()) else None

    @cached_property
    def quote_count(self) -> int:
        return int(np.count_nonzero(self._is_quote))

    @cached_property
    def quotes(self) -> Places:
        return np.flatnonzero(self._is_quote)

    @cached_property
    def quote_counts(self) -> Places:
        counts: Places = np.diff(np.searchsorted(self.quotes, self.ends), prepend=0)
        return counts

    def unusual(self) -> npt.NDArray[np.bool_]:
        """Return which lines have an escape or a control character."""
        found = np.zeros(self.ends.size, dtype=np.bool_)
        found[np.searchsorted(self.ends, self._controls)] = True
        for sign in (_ESCAPE, _DELETE):
            if sign <= self.highest and sign in self.data:
                places = np.flatnonzero(self.signs == sign)
                found[np.searchsorted(self.ends, places)] = True
        return found


class PairColumns:
    """Counts blocks of lines for one shard; remembers how its lines are written."""

    def __init__(self, exam: RowExam, admit: Admit) -> None:
        self._exam, self._admit = exam, admit
        self._labels = [label.encode() for label in exam.space.labels]
        size = len(self._labels)
        self._codes = np.array(list(exam.space.codes.values()), dtype="<u2").reshape(size, size)
        self._refused = _find_members(exam.space.both("refuse"), self._codes)
        self._accepted = _find_members(exam.space.both("accept"), self._codes)
        self._token = exam.options.refusal_token.encode()
        self._forms: list[_LineForm] = []
        keep_freed_memory()
        self._failures = self._uneven = 0

    def count(self, state: AgreementExamState, data: bytes) -> list[str] | None:
        """Count some lines into ``state`` and return their ids; None if nothing was counted."""
        if self._failures == _MAX_FAILURES:
            return None
        names = self._count_block(state, data)
        self._failures = self._failures + 1 if names is None else 0
        return names

    def _count_block(self, state: AgreementExamState, data: bytes) -> list[str] | None:
        if not data.endswith(b"\n"):
            return None
        block = _Block(data, is_even=self._uneven < _MAX_FAILURES)
        self._uneven += block.closing is None
        if block.highest > _DELETE:
            try:
                data.decode()
            except UnicodeDecodeError:
                return None
        rows = _Rows(block)
        for form in self._forms:
            self._take(block, form, rows)
        while rows.left.any() and len(self._forms) < _MAX_FORMS:
            row = int(np.argmax(rows.left))
            learned = self._learn_line(data[block.starts[row] : block.ends[row] + 1])
            if learned is not None:
                self._forms.append(learned)
                self._take(block, learned, rows)
            if rows.left[row]:
                rows.set_odd(row)
            if rows.odd_count * _MAX_ODD > block.ends.size:
                return None
        rows.is_odd |= rows.left
        return self._count_with_odd(state, block, rows)

    def _count_with_odd(
        self, state: AgreementExamState, block: _Block, rows: _Rows
    ) -> list[str] | None:
        """Read the odd lines as records; add all lines to the state."""
        names: list[bytes] = rows.names.tolist()
        odd, shard = np.flatnonzero(rows.is_odd), state.shard
        if odd.size * _MAX_ODD > block.ends.size:
            return None
        if odd.size:
            lines = [block.data[block.starts[row] : block.ends[row] + 1] for row in odd.tolist()]
            records = self._admit(b"".join(lines))
            if records is None:
                return None
            part = self._exam.step(self._exam.zero(shard), records)
            rows.codes[odd] = np.frombuffer(part.codes.pop(shard), dtype="<u2")
            found = bytes(part.names.pop(shard)).split(b"\n")
            for row, name in zip(odd.tolist(), found, strict=False):
                names[row] = name
            self._exam.add_findings(state, part)
        state.copied_count += rows.copied_count(self._exam)
        joined = b"\n".join(names)
        state.names.setdefault(shard, bytearray()).extend(joined + b"\n")
        state.codes.setdefault(shard, bytearray()).extend(rows.codes.tobytes())
        return joined.decode().split("\n")

    def _learn_line(self, line: bytes) -> _LineForm | None:
        """Return how a line is written if the exact reader accepts it and nothing is odd in it."""
        records = self._admit(line)
        if not records or find_red_flag(records[0]) != CLEAR:
            return None
        return _learn_form(line.removesuffix(b"\n"))

    def _take(self, block: _Block, form: _LineForm, rows: _Rows) -> None:
        """Fill the columns of the lines that have this form."""
        if self._take_all(block, form, rows):
            return
        chosen = np.flatnonzero(rows.left & (block.quote_counts == 2 * form.string_count))
        if not chosen.size:
            return
        first = np.cumsum(block.quote_counts)[chosen] - 2 * form.string_count
        # A gap has as many quotation marks as the form has there, and one line break at the end. So
        # where its bytes are the wanted ones, the next text begins right behind them.
        before = [block.starts[chosen]]
        before += [block.quotes[first + 2 * place + 1] for place in form.texts]
        alike = np.ones(chosen.size, dtype=np.bool_)
        for start, gap in zip(before, form.gaps, strict=True):
            alike &= block.follow(start, gap)
        chosen = chosen[alike]
        if chosen.size:
            before = [places[alike] for places in before]
            spans = [
                (start + len(gap), end)
                for (start, end), gap in zip(pairwise(before), form.gaps, strict=False)
            ]
            rows.left[chosen] = False
            self._fill(block, form, rows, chosen, spans)

    def _take_all(self, block: _Block, form: _LineForm, rows: _Rows) -> bool:
        """Fill the columns if all lines have this form; return whether they do.

        Then the gaps, which do not overlap, have all quotation marks there are: no text has any.
        """
        closing, count = block.closing, block.ends.size
        if (
            closing is None
            or closing.shape[1] != len(form.texts)
            or block.quote_count != 2 * form.string_count * count
            or not rows.left.all()
        ):
            return False
        before = np.vstack((block.starts, closing.T))
        if not all(block.follow(*one).all() for one in zip(before, form.gaps, strict=True)):
            return False
        starts = before[:-1] + np.array([len(gap) for gap in form.gaps[:-1]])[:, np.newaxis]
        if bool((starts > before[1:]).any()):
            return False
        rows.left[:] = False
        spans = list(zip(starts, before[1:], strict=True))
        self._fill(block, form, rows, np.arange(count), spans)
        return True

    def _fill(
        self,
        block: _Block,
        form: _LineForm,
        rows: _Rows,
        chosen: Places,
        spans: Sequence[Span],
    ) -> None:
        starts, sizes = spans[form.qid][0], spans[form.qid][1] - spans[form.qid][0]
        is_odd = (sizes < 1) | (sizes > MAX_ID_BYTES)
        names = block.texts((starts, starts + np.clip(sizes, 1, MAX_ID_BYTES)))
        both = np.concatenate([spans[place][0] for place in form.labels])
        first, second = encode_labels(block.words, both, self._labels).reshape(2, chosen.size)
        unknown = len(self._labels)
        is_odd |= (first == unknown) | (second == unknown)
        codes = self._codes[np.minimum(first, unknown - 1), np.minimum(second, unknown - 1)]
        reasons = [spans[place] for place in form.reasons if place is not None]
        if reasons:
            given = (
                np.concatenate([span[0] for span in reasons]),
                np.concatenate([span[1] for span in reasons]),
            )
            found = block.doubtful(given, self._exam.options.reason_max)
            is_odd |= found.reshape(len(reasons), chosen.size).any(axis=0)
        if form.claim is not None:
            is_odd |= self._find_odd_claims(block, spans[form.claim], codes)
        for place in form.cited:
            left = np.arange(chosen.size)
            for other in form.retrieved:
                pair = [(starts[left], ends[left]) for starts, ends in (spans[place], spans[other])]
                left = left[~_compare_texts(block.words, pair[0], pair[1])]
                if not left.size:
                    break
            is_odd[left] = True
        if chosen.size == rows.codes.size:
            rows.names, rows.codes, rows.is_odd = names, codes, is_odd
        else:
            if names.dtype.itemsize > rows.names.dtype.itemsize:
                rows.names = rows.names.astype(names.dtype)
            rows.names[chosen] = names
            rows.codes[chosen] = codes
            rows.is_odd[chosen] = is_odd
        if len(reasons) == 2:
            rows.add_reasons(~is_odd, reasons[0], reasons[1])

    def _find_odd_claims(
        self, block: _Block, span: Span, codes: npt.NDArray[np.uint16]
    ) -> npt.NDArray[np.bool_]:
        """Return which claims are a refusal where they should not be, or the other way round."""
        starts, sizes = span[0], span[1] - span[0]
        is_token = np.zeros(sizes.size, dtype=np.bool_)
        as_long = np.flatnonzero(sizes == len(self._token))
        is_token[as_long] = match_bytes(block.words, starts[as_long], self._token)
        is_odd = (is_token & self._accepted[codes]) | (
            ~is_token & self._refused[codes] & (sizes > 0)
        )
        longest = 4 * self._exam.longest_refusal
        if block.highest <= _DELETE:
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
        if not chosen.all():
            first, second = ((starts[chosen], ends[chosen]) for starts, ends in (first, second))
        self._reasons.append((first, second))

    def copied_count(self, exam: RowExam) -> int:
        block, total = self._block, 0
        for first, second in self._reasons:
            alike = find_possible_copies(
                (block.signs, first[0], first[1] - first[0]),
                (block.signs, second[0], second[1] - second[0]),
            )
            for row in alike.tolist():
                one, other = block.text(first, row).decode(), block.text(second, row).decode()
                total += exam.is_copied(one, other)
        return total


def _find_members(codes: frozenset[int], known: npt.NDArray[np.uint16]) -> npt.NDArray[np.bool_]:
    found = np.zeros(int(known.max()) + 1, dtype=np.bool_)
    found[list(codes)] = True
    return found


def _compare_texts(words: Words, one: Span, other: Span) -> npt.NDArray[np.bool_]:
    """Return where two texts are equal; long ones count as different."""
    sizes = one[1] - one[0]
    alike: npt.NDArray[np.bool_] = (
        (sizes == other[1] - other[0]) & (sizes <= MAX_ID_BYTES) & (sizes > 0)
    )
    for place in range(0, min(int(sizes.max()), MAX_ID_BYTES), 8):
        rows = np.flatnonzero(alike & (sizes > place)) if place else np.arange(sizes.size)
        differ = words[one[0][rows] + place] ^ words[other[0][rows] + place]
        alike[rows] &= (differ & MASKS[np.minimum(sizes[rows] - place, 8)]) == 0
    return alike


def _learn_form(line: bytes) -> _LineForm | None:
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
    gaps.append(gap + b"\n")
    if max(map(len, gaps)) >= MAX_GAP:
        return None
    try:
        record = msgspec.json.decode(marked, type=dict[str, object])
        return _place_texts(record, len(strings), tuple(places), tuple(gaps))
    except (msgspec.MsgspecError, TypeError, ValueError):
        return None


def _place_texts(
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
