"""Two files of judgements become rows, each with both opinions and what they were about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from gatemark.core.exam import NumberedRecord

FIRST, SECOND = "scholar", "auditor"


class Row(msgspec.Struct, frozen=True, gc=False):
    """A joined question; quacks like a merged pair record."""

    qid: str
    scholar: Any
    auditor: Any
    answer_json: Any
    retrieved_ids: Any
    flags: Any
    same_evidence: bool
    others: tuple[str | None, ...]


def join_judgements(
    tables: Mapping[str, Sequence[NumberedRecord]],
) -> tuple[list[Row], dict[str, tuple[NumberedRecord, ...]]]:
    """Rows for the questions that both sides judged, in the order of their ids, and the rest."""
    sides = {name: {item.record.qid: item for item in table} for name, table in tables.items()}
    first, second = sides[FIRST], sides[SECOND]
    others = [side for name, side in sides.items() if name not in {FIRST, SECOND}]
    shared = sorted(first.keys() & second.keys())
    rows = [_row(qid, first[qid].record, second[qid].record, others) for qid in shared]
    paired = set(shared)
    unmatched = {}
    for name, side in sides.items():
        if lonely := tuple(item for qid, item in side.items() if qid not in paired):
            unmatched[name] = lonely
    return rows, unmatched


def _row(qid: str, scholar: Any, auditor: Any, others: Sequence[Mapping[str, Any]]) -> Row:
    return Row(
        qid=qid,
        scholar=scholar,
        auditor=auditor,
        answer_json=_either(scholar.answer_json, auditor.answer_json),
        retrieved_ids=_either(scholar.retrieved_ids, auditor.retrieved_ids),
        flags=_any_flag(scholar.flags, auditor.flags),
        same_evidence=_same(scholar.answer_json, auditor.answer_json)
        and _same(scholar.retrieved_ids, auditor.retrieved_ids),
        others=tuple(side[qid].record.label if qid in side else None for side in others),
    )


def _either(left: Any, right: Any) -> Any:
    return right if left is UNSET or left is None else left


def _same(left: Any, right: Any) -> bool:
    """Whether two sides that both say something say the same."""
    return left is UNSET or right is UNSET or left == right


def _any_flag(left: Any, right: Any) -> Any:
    """Flags of both sides together; a flag raised by either stays raised."""
    if left is UNSET or right is UNSET:
        return right if left is UNSET else left
    return left if left.provenance_violation is True or left.constraints_mismatch is True else right
