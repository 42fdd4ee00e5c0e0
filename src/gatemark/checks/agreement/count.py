"""Count rows with two opinions: their labels and flags, their votes, and what is odd in them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from gatemark.checks.agreement.arbitrate import (
    CLEAR,
    FLAGS,
    SOURCE_ROLES,
    LabelSpace,
    find_red_flag,
)
from gatemark.checks.agreement.hygiene import RefusalToken, find_odd_reasons, is_copied
from gatemark.checks.agreement.records import AUDITOR, SCHOLAR
from gatemark.checks.agreement.rules import AgreementOptions
from gatemark.core.fold import AnyMeasure, add_counts
from gatemark.core.record import RecordSchema
from gatemark.core.registry import Registry
from gatemark.evidence.exam import Exam

if TYPE_CHECKING:
    from gatemark.checks.agreement.records import Grounds, JudgementPair, Opinion

MAX_SEEDS: Final = 100

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
    """Some rows by column; ``grounds`` is what each row is about."""

    names: Sequence[str]
    scholars: Sequence[Opinion]
    auditors: Sequence[Opinion]
    grounds: Sequence[JudgementPair | Grounds]


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
        self._token = RefusalToken(options.refusal_token)
        if options.labels or options.extra_keys:
            # Imported late: most files use the built-in labels and keys.
            from gatemark.checks.agreement.labels import build_schema  # noqa: PLC0415

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
            grounds=batch,
        )
        return self.count(state, columns)

    def count(self, state: AgreementExamState, rows: RowColumns) -> AgreementExamState:
        """Count some rows into ``state``."""
        if not rows.names:
            return state
        first = [one.label for one in rows.scholars]
        second = [one.label for one in rows.auditors]
        codes = array("H", map(self.space.codes.__getitem__, zip(first, second, strict=True)))
        for place, flag in enumerate(map(find_red_flag, rows.grounds)):
            if flag != CLEAR:
                codes[place] += FLAGS.index(flag)
        shard = state.shard
        state.names.setdefault(shard, bytearray()).extend(("\n".join(rows.names) + "\n").encode())
        state.codes.setdefault(shard, bytearray()).extend(codes.tobytes())
        reasons = {
            SCHOLAR: [one.reason for one in rows.scholars],
            AUDITOR: [one.reason for one in rows.auditors],
        }
        state.copied_count += sum(map(is_copied, reasons[SCHOLAR], reasons[AUDITOR]))
        self._note_reasons(state, rows.names, reasons)
        self._check_refusals(state, rows, codes)
        self._check_votes(state, rows)
        return state

    def count_panel(
        self,
        state: AgreementExamState,
        names: Sequence[str],
        pairs: Sequence[tuple[Opinion, Opinion]],
        further: Mapping[str, Sequence[Opinion | None]],
    ) -> None:
        """Count the opinions of further validators: all labels, what is missing, and reasons."""
        for pair, *others in zip(pairs, *further.values(), strict=True):
            labels = tuple(None if one is None else one.label for one in (*pair, *others))
            state.panel[labels] = state.panel.get(labels, 0) + 1
            for who, one in zip(further, others, strict=True):
                if one is None:
                    state.unrated[who] = state.unrated.get(who, 0) + 1
        reasons = {
            who: [UNSET if one is None else one.reason for one in side]
            for who, side in further.items()
        }
        self._note_reasons(state, names, reasons)

    def _note_reasons(
        self,
        state: AgreementExamState,
        names: Sequence[str],
        reasons: Mapping[str, Sequence[str | UnsetType]],
    ) -> None:
        for kind, words in find_odd_reasons(names, reasons, self.options.reason_max):
            _note(state, kind, words)

    def _check_refusals(
        self, state: AgreementExamState, rows: RowColumns, codes: Sequence[int]
    ) -> None:
        claims = [answer.claim if (answer := one.answer_json) else None for one in rows.grounds]
        refused = {place for place, code in enumerate(codes) if code in self._refused}
        accepted = {place for place, code in enumerate(codes) if code in self._accepted}
        for place in self._token.find_inexact(claims, refused, accepted):
            _note(state, "inexact_refusal", rows.names[place])

    def _check_votes(self, state: AgreementExamState, rows: RowColumns) -> None:
        found: list[tuple[int, str]] = []
        for who, side in ((SCHOLAR, rows.scholars), (AUDITOR, rows.auditors)):
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
