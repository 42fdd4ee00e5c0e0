"""What labels mean, when a row has a red flag, and the final label of a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

from msgspec import UNSET

if TYPE_CHECKING:
    from gatemark.checks.agreement.records import Grounds, JudgementPair

NicPolicy = Literal["strict", "accept_agreed"]
Role = Literal["accept", "refuse", "reject", "abstain"]
"""The meaning of a label for shipping: accept, refuse, reject or abstain."""
ROLES: Final = get_args(Role)

CLEAR = "clear"
HARD_FLAG = "hard_flag"
CITATION_OUT_OF_SCOPE = "citation_out_of_scope"
RETRIEVED_IDS_MISSING = "retrieved_ids_missing"
FLAGS: Final = (CLEAR, HARD_FLAG, CITATION_OUT_OF_SCOPE, RETRIEVED_IDS_MISSING)

SOURCE_ROLES: Final[Mapping[str, Role]] = {
    "VALID": "accept",
    "NOT_IN_CONTEXT": "refuse",
    "REJECT": "reject",
    "ABSTAIN": "abstain",
}
REJECTED: Final = "REJECT"
_STRICTEST_FIRST: Final = ("reject", "abstain", "refuse", "accept")


class Ruling(NamedTuple):
    """The final label of a row, and the step that gave it."""

    final: str
    why: str


class LabelCell(NamedTuple):
    """Both labels of a row, and its red flag."""

    scholar: str
    auditor: str
    flag: str


class LabelSpace:
    """The labels that validators may give, with the role of each, by role and alphabet.

    Their order in a file does not count: what is sealed does not keep it, and must give the same.
    """

    def __init__(self, roles: Mapping[str, Role] = SOURCE_ROLES) -> None:
        self.labels = tuple(sorted(roles, key=lambda label: (ROLES.index(roles[label]), label)))
        self.roles = {label: roles[label] for label in self.labels}
        self.rejecting = next((one for one in self.labels if roles[one] == "reject"), REJECTED)
        size, step = len(self.labels), len(FLAGS)
        self.codes = {
            (scholar, auditor): (row * size + column) * step
            for row, scholar in enumerate(self.labels)
            for column, auditor in enumerate(self.labels)
        }
        """The code of each pair of labels without a flag; a flag adds its place in ``FLAGS``."""

    @cached_property
    def cells(self) -> tuple[LabelCell, ...]:
        """The cell of each code."""
        return tuple(LabelCell(*pair, flag) for pair in self.codes for flag in FLAGS)

    def having(self, role: Role) -> frozenset[str]:
        """Return the labels of a role."""
        return frozenset(label for label, found in self.roles.items() if found == role)

    def both(self, role: Role) -> frozenset[int]:
        """Return the codes of rows without a flag to which both sides gave labels of a role."""
        labels = self.having(role)
        return frozenset(self.codes[one, other] for one in labels for other in labels)

    def reduce_votes(self, votes: Sequence[str]) -> str:
        """Return the label with the most votes; in a tie, the strictest of those labels.

        From strict to lenient: reject, abstain, refuse, accept. Labels of one role are taken in
        alphabetical order.
        """
        counts = Counter(votes)
        most = max(counts.values())
        tied = [label for label, count in counts.items() if count == most]
        return min(tied, key=lambda label: (_STRICTEST_FIRST.index(self.roles[label]), label))


SOURCE_SPACE: Final = LabelSpace()


def find_red_flag(row: JudgementPair | Grounds) -> str:
    """Return the first hard reason to reject a row, or ``clear``."""
    if (flags := row.flags) and (flags.provenance_violation or flags.constraints_mismatch):
        return HARD_FLAG
    if not (answer := row.answer_json) or not (cited := answer.citations):
        return CLEAR
    if (retrieved := row.retrieved_ids) is UNSET or retrieved is None:
        return RETRIEVED_IDS_MISSING
    return CLEAR if set(cited).issubset(retrieved) else CITATION_OUT_OF_SCOPE


def arbitrate(
    scholar: str,
    auditor: str,
    flag: str,
    nic_policy: NicPolicy,
    space: LabelSpace = SOURCE_SPACE,
) -> Ruling:
    """Return the ruling on one row.

    1. A hard flag, or a citation outside the retrieved passages, rejects.
    2. An auditor who does not accept rejects (under ``accept_agreed``, two refusals agree).
    3. An auditor who accepts and a scholar who accepts or refuses ship the auditor's label.
    4. Anything else rejects.
    """
    rejected = space.rejecting
    first, second = space.roles[scholar], space.roles[auditor]
    if flag != CLEAR:
        return Ruling(rejected, flag)
    if second == "abstain":
        return Ruling(rejected, "auditor_abstain")
    if second != "accept":
        if nic_policy == "accept_agreed" and first == second == "refuse":
            return Ruling(auditor, "agreed_refusal")
        return Ruling(rejected, "auditor_veto")
    if first in {"accept", "refuse"}:
        return Ruling(auditor, "auditor_ok")
    if first == "abstain":
        return Ruling(rejected, "scholar_abstain")
    return Ruling(rejected, "incoherent_pair")
