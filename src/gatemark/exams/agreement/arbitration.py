"""Who wins when validators meet a red flag, a refusal or each other.

The four steps, over every row:

1. A hard flag, or a citation outside the retrieved passages, rejects.
2. An auditor who does not say VALID rejects (under ``accept_agreed``, two refusals agree).
3. VALID from the auditor with VALID or NOT_IN_CONTEXT from the scholar ships.
4. Anything else rejects.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from msgspec import UNSET

NicPolicy = Literal["strict", "accept_agreed"]

CLEAR = "clear"
HARD_FLAG = "hard_flag"
CITATION_OUT_OF_SCOPE = "citation_out_of_scope"
RETRIEVED_IDS_MISSING = "retrieved_ids_missing"


class Ruling(NamedTuple):
    """The final label of a row, and the step that gave it."""

    final: str
    why: str


def red_flag(row: Any) -> str:
    """The first hard reason to reject a row, or ``clear``."""
    if (flags := row.flags) and (flags.provenance_violation or flags.constraints_mismatch):
        return HARD_FLAG
    if not (answer := row.answer_json) or not (cited := answer.citations):
        return CLEAR
    if (retrieved := row.retrieved_ids) is UNSET or retrieved is None:
        return RETRIEVED_IDS_MISSING
    if len(cited) == 1:
        return CLEAR if cited[0] in retrieved else CITATION_OUT_OF_SCOPE
    return CLEAR if set(cited).issubset(retrieved) else CITATION_OUT_OF_SCOPE


def arbitrate(scholar: str, auditor: str, flag: str, nic_policy: NicPolicy) -> Ruling:
    """The ruling on one row; the same labels and flag always give the same ruling."""
    if flag != CLEAR:
        return Ruling("REJECT", flag)
    if auditor == "ABSTAIN":
        return Ruling("REJECT", "auditor_abstain")
    if auditor != "VALID":
        if nic_policy == "accept_agreed" and auditor == scholar == "NOT_IN_CONTEXT":
            return Ruling("NOT_IN_CONTEXT", "agreed_refusal")
        return Ruling("REJECT", "auditor_veto")
    if scholar in {"VALID", "NOT_IN_CONTEXT"}:
        return Ruling("VALID", "auditor_ok")
    if scholar == "ABSTAIN":
        return Ruling("REJECT", "scholar_abstain")
    return Ruling("REJECT", "incoherent_pair")


def is_content_conflict(cell: tuple[str, str, str], ruling: Ruling) -> bool:
    """Whether a row ships although the scholar saw only a refusal in it."""
    return cell[0] == "NOT_IN_CONTEXT" and ruling.final == "VALID"
