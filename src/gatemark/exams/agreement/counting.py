"""Count rows with two opinions: their labels and flags, and what is odd about them."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from gatemark.core.fold import AnyMeasure, add_counts
from gatemark.core.record import RecordSchema
from gatemark.core.registry import Registry
from gatemark.evidence.exam import Exam
from gatemark.evidence.look_alikes import FIRST_SIGNS, bare_text
from gatemark.evidence.personal_data import personal_data, suspicious
from gatemark.exams.agreement.rules import (
    FLAGS,
    SOURCE_ROLES,
    AgreementOptions,
    LabelSpace,
    find_flagged,
    find_red_flag,
)

if TYPE_CHECKING:
    from gatemark.exams.agreement.records import Judgement, JudgementPair, Opinion

MIN_COPIED_WORDS: Final = 4
"""Shorter reasons, such as codes, are often equal by chance."""
MAX_SEEDS: Final = 100
SLACK_CHARS: Final = 16
"""A claim with more characters beyond the token is not a variant of it."""

_qid, _votes = attrgetter("qid"), attrgetter("votes")


class AgreementExamState(msgspec.Struct):
    """The id and the code of every row, and what the exam found in reasons and answers.

    ``names`` has a line per row, ``codes`` two bytes per row. Ordered data is stored by shard, and
    ``hits`` also by check. ``vote_sizes`` counts, by side, the rows by their number of votes.
    """

    shard: int
    names: dict[int, bytearray] = {}
    codes: dict[int, bytearray] = {}
    hits: dict[str, dict[int, list[str]]] = {}
    copied_count: int = 0
    copied_files: list[str] = []
    voted_count: int = 0
    vote_sizes: dict[str, dict[int, int]] = {}
    seeds: dict[str, list[int]] = {}
    panel: dict[tuple[str | None, ...], int] = {}
    different_evidence: list[str] = []
    unmatched: dict[str, int] = {}
    unrated: dict[str, int] = {}


class RowColumns(NamedTuple):
    """Some rows by column; ``flags`` has the red flag of rows that have one, by place."""

    names: Sequence[str]
    scholars: Sequence[Opinion | Judgement]
    auditors: Sequence[Opinion | Judgement]
    claims: Sequence[str | UnsetType | None]
    flags: Mapping[int, str]


class RowExam(Exam[AgreementExamState]):
    """An exam that counts rows by column, whichever files they came from."""

    schema = "gatemark.pair/1"
    form = "pair"
    state = AgreementExamState

    def __init__(self, options: AgreementOptions, measures: Registry[AnyMeasure]) -> None:
        self.options = options
        self.space = LabelSpace(options.labels or SOURCE_ROLES)
        self._measures = measures
        self._own_schema: RecordSchema | None = None
        self._refused = self.space.both("refuse")
        self._accepted = self.space.both("accept")
        self._token_words = _strip_punctuation(options.refusal_token)
        # Most claims lack this word and need no closer check.
        self._rarest = max(self._token_words.split(), key=len, default="")
        if options.labels or options.extra_keys:
            # Imported late: most files use the built-in labels and keys.
            from gatemark.exams.agreement.labels import build_schema  # noqa: PLC0415

            self._own_schema = build_schema(self.space.labels, options.extra_keys)

    def own_schema(self) -> RecordSchema | None:
        return self._own_schema

    def zero(self, shard: int) -> AgreementExamState:
        return AgreementExamState(shard=shard)

    def step(self, state: AgreementExamState, batch: Sequence[JudgementPair]) -> AgreementExamState:
        columns = RowColumns(
            names=list(map(_qid, batch)),
            scholars=[row.scholar for row in batch],
            auditors=[row.auditor for row in batch],
            claims=[answer.claim if (answer := row.answer_json) else None for row in batch],
            flags={place: find_red_flag(batch[place]) for place in find_flagged(batch)},
        )
        return self.count(state, columns)

    def count(self, state: AgreementExamState, rows: RowColumns) -> AgreementExamState:
        """Count some rows into ``state``."""
        if not rows.names:
            return state
        first = [one.label for one in rows.scholars]
        second = [one.label for one in rows.auditors]
        codes = array("H", map(self.space.codes.__getitem__, zip(first, second, strict=True)))
        for place, flag in rows.flags.items():
            codes[place] += FLAGS.index(flag)
        shard = state.shard
        state.names.setdefault(shard, bytearray()).extend(("\n".join(rows.names) + "\n").encode())
        state.codes.setdefault(shard, bytearray()).extend(codes.tobytes())
        self._check_reasons(state, rows)
        self._check_refusals(state, rows, codes)
        self._check_votes(state, rows)
        return state

    def count_panel(
        self,
        state: AgreementExamState,
        names: Sequence[str],
        rows: Iterable[tuple[str, Sequence[Judgement | None]]],
    ) -> None:
        """Count the opinions of further validators: all labels, what is missing, and reasons."""
        for qid, opinions in rows:
            labels = tuple(None if one is None else one.label for one in opinions)
            state.panel[labels] = state.panel.get(labels, 0) + 1
            for name, record in zip(names, opinions[2:], strict=True):
                if record is None:
                    state.unrated[name] = state.unrated.get(name, 0) + 1
                else:
                    self.check_reason(state, qid, name, record.reason)

    def _check_reasons(self, state: AgreementExamState, rows: RowColumns) -> None:
        first = [one.reason for one in rows.scholars]
        second = [one.reason for one in rows.auditors]
        given = [one for reasons in (first, second) for one in reasons if one]
        if not given:
            return
        state.copied_count += sum(map(self.is_copied, first, second))
        is_long = max(map(len, given)) > self.options.reason_max
        if is_long or suspicious(given):
            sides = (("scholar", first), ("auditor", second))
            for place, name in enumerate(rows.names):
                for who, reasons in sides:
                    self.check_reason(state, name, who, reasons[place])

    def is_copied(self, one: str | UnsetType, other: str | UnsetType) -> bool:
        """Return whether both sides give one reason that is too long to be the same by chance."""
        if not one or not other:
            return False
        # Most reasons differ in their first letter and need no closer look.
        first, second = FIRST_SIGNS.get(one[0]), FIRST_SIGNS.get(other[0])
        if first != second and first is not None and second is not None:
            return False
        if one != other and bare_text(one, folds=True) != bare_text(other, folds=True):
            return False
        return max(map(_count_words, (one, other))) >= MIN_COPIED_WORDS

    def check_reason(
        self, state: AgreementExamState, name: str, who: str, reason: str | UnsetType
    ) -> None:
        """Note a reason that is too long or contains personal data."""
        if reason is UNSET:
            return
        if kinds := personal_data(reason):
            _note(state, "personal_data", f"{name} ({who}: {', '.join(kinds)})")
        if len(reason) > self.options.reason_max:
            _note(state, "long_reason", f"{name} ({who}: {len(reason)} characters)")

    def _check_refusals(
        self, state: AgreementExamState, rows: RowColumns, codes: Sequence[int]
    ) -> None:
        """Record refusals that are not the exact token, and refusals that both sides accept."""
        token = self.options.refusal_token
        refused = [place for place, code in enumerate(codes) if code in self._refused]
        found = {place for place in refused if (claim := rows.claims[place]) and claim != token}
        longest = self.longest_refusal
        found.update(
            place
            for place, claim in enumerate(rows.claims)
            if claim
            and len(claim) <= longest
            and (codes[place] in self._accepted if claim == token else self.is_refusal(claim))
        )
        for place in sorted(found):
            _note(state, "inexact_refusal", rows.names[place])

    @property
    def longest_refusal(self) -> int:
        """The most characters of a claim that may be a refusal."""
        return len(self.options.refusal_token) + SLACK_CHARS

    def is_refusal(self, claim: str) -> bool:
        """Return whether a claim is the token apart from case and punctuation."""
        return self._rarest in claim.casefold() and _strip_punctuation(claim) == self._token_words

    def _check_votes(self, state: AgreementExamState, rows: RowColumns) -> None:
        found: list[tuple[int, str]] = []
        for who, side in (("scholar", rows.scholars), ("auditor", rows.auditors)):
            seeds = {seed for one in side if (seed := one.seed) is not UNSET}
            if seeds:
                known = set(state.seeds.get(who, ())) | seeds
                state.seeds[who] = sorted(known)[:MAX_SEEDS]
            if not any(map(_votes, side)):
                continue
            for place, one in enumerate(side):
                if not one.votes:
                    continue
                state.voted_count += 1
                sizes = state.vote_sizes.setdefault(who, {})
                sizes[len(one.votes)] = sizes.get(len(one.votes), 0) + 1
                label = self.space.reduce_votes(one.votes)
                if label != one.label:
                    words = f"{rows.names[place]} ({who}: {one.label}, votes give {label})"
                    found.append((place, words))
        for _, words in sorted(found, key=itemgetter(0)):
            _note(state, "vote_mismatch", words)

    def add_findings(self, state: AgreementExamState, part: AgreementExamState) -> None:
        """Add to ``state`` what was found in some of its rows, without their ids and codes."""
        state.copied_count += part.copied_count
        state.voted_count += part.voted_count
        state.vote_sizes = _add_sizes(state.vote_sizes, part.vote_sizes)
        for kind, found in part.hits.items():
            for hit in order_by_shard(found):
                _note(state, kind, hit)
        for who, seeds in part.seeds.items():
            state.seeds[who] = sorted({*state.seeds.get(who, ()), *seeds})[:MAX_SEEDS]

    def merge(self, left: AgreementExamState, right: AgreementExamState) -> AgreementExamState:
        sides = sorted(left.seeds.keys() | right.seeds.keys())
        return AgreementExamState(
            shard=min(left.shard, right.shard),
            names={**left.names, **right.names},
            codes={**left.codes, **right.codes},
            hits={
                kind: {**left.hits.get(kind, {}), **right.hits.get(kind, {})}
                for kind in sorted(left.hits.keys() | right.hits.keys())
            },
            copied_count=left.copied_count + right.copied_count,
            copied_files=[*left.copied_files, *right.copied_files],
            voted_count=left.voted_count + right.voted_count,
            vote_sizes=_add_sizes(left.vote_sizes, right.vote_sizes),
            seeds={
                who: sorted({*left.seeds.get(who, ()), *right.seeds.get(who, ())})[:MAX_SEEDS]
                for who in sides
            },
            panel=add_counts(left.panel, right.panel),
            different_evidence=sorted([*left.different_evidence, *right.different_evidence]),
            unmatched=add_counts(left.unmatched, right.unmatched),
            unrated=add_counts(left.unrated, right.unrated),
        )


def _strip_punctuation(text: str) -> str:
    """Return a text in lower case and without punctuation, for comparison."""
    return " ".join("".join(s if s.isalnum() else " " for s in text.casefold()).split())


_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]{2}"
)
"""Two signs of a script that puts no blanks between words, which make about one word."""


def _count_words(text: str) -> int:
    return len(_strip_punctuation(_UNSPACED.sub(" w ", text)).split())


def _note(state: AgreementExamState, kind: str, hit: str) -> None:
    state.hits.setdefault(kind, {}).setdefault(state.shard, []).append(hit)


def order_by_shard(found: Mapping[int, Iterable[str]]) -> list[str]:
    """Return what was found by shard, in the order of the rows."""
    return [hit for shard in sorted(found) for hit in found[shard]]


def _add_sizes(
    left: Mapping[str, Mapping[int, int]], right: Mapping[str, Mapping[int, int]]
) -> dict[str, dict[int, int]]:
    return {
        who: add_counts(left.get(who, {}), right.get(who, {}))
        for who in sorted(left.keys() | right.keys())
    }
