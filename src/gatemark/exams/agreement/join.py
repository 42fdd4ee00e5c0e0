"""Two files of judgements become rows, each with both opinions and what they were about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from gatemark.evidence.exam import NumberedRecord

FIRST, SECOND = "scholar", "auditor"


class JoinedAnswer(msgspec.Struct, frozen=True, gc=False):
    """What arbitration asks of an answer."""

    citations: list[str] | msgspec.UnsetType = UNSET


class JoinedRow(msgspec.Struct, frozen=True, gc=False):
    """A joined question; quacks like a merged pair record."""

    qid: str
    scholar: Any
    auditor: Any
    answer_json: Any
    retrieved_ids: Any
    flags: Any
    same_evidence: bool
    others: tuple[Any, ...]

    @property
    def is_echo(self) -> bool:
        """Whether both sides say the same in the same words."""
        return bool(self.scholar.reason) and self.scholar == self.auditor


def join_judgements(
    tables: Mapping[str, Sequence[NumberedRecord]],
) -> tuple[list[JoinedRow], dict[str, tuple[NumberedRecord, ...]]]:
    """Rows for the questions that both sides judged, in the order of their ids, and the rest."""
    sides = {name: {item.record.qid: item for item in table} for name, table in tables.items()}
    first, second = sides[FIRST], sides[SECOND]
    others = [side for name, side in sides.items() if name not in {FIRST, SECOND}]
    shared = sorted(first.keys() & second.keys())
    rows = [
        _row(
            first[qid].record,
            second[qid].record,
            tuple(side[qid].record if qid in side else None for side in others),
        )
        for qid in shared
    ]
    paired = set(shared)
    unmatched = {}
    for name, side in sides.items():
        if lonely := tuple(item for qid, item in side.items() if qid not in paired):
            unmatched[name] = lonely
    return rows, unmatched


def _row(scholar: Any, auditor: Any, others: tuple[Any, ...]) -> JoinedRow:
    everyone = (scholar, auditor, *(record for record in others if record is not None))
    answers = [record.answer_json for record in everyone]
    passages = [record.retrieved_ids for record in everyone]
    answer = _first_told(answers)
    return JoinedRow(
        qid=scholar.qid,
        scholar=scholar,
        auditor=auditor,
        answer_json=msgspec.convert(answer, JoinedAnswer) if answer else answer,
        retrieved_ids=_first_told(passages),
        flags=_raised([record.flags for record in everyone]),
        same_evidence=_all_same(answers) and _all_same(passages),
        others=others,
    )


def _first_told(values: Sequence[Any]) -> Any:
    told = [value for value in values if value is not UNSET]
    return next((value for value in told if value is not None), told[0] if told else UNSET)


def _all_same(values: Sequence[Any]) -> bool:
    """Whether sides that say something say the same."""
    told = [value for value in values if value is not UNSET]
    return all(value == told[0] for value in told)


def _raised(values: Sequence[Any]) -> Any:
    """The flags of all sides together; one that anybody raised stays raised."""
    told = [value for value in values if value is not UNSET]
    raised = (one for one in told if True in (one.provenance_violation, one.constraints_mismatch))
    return next(raised, told[0] if told else UNSET)
