"""Who may do what: roles, separation of duties, and approvals that still count."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from gatemark.core.errors import NotAllowedError
from gatemark.ledger.payloads import SYSTEM
from gatemark.lifecycle.decisions.citation import PromotionCase
from gatemark.lifecycle.events.approvals import ApprovalGiven
from gatemark.lifecycle.model.nouns import Role, Stage
from gatemark.lifecycle.model.state import Approval, GovernanceState, LifecycleState


def roles_of(governance: GovernanceState, actor: str) -> tuple[Role, ...]:
    """The roles that somebody holds now."""
    return ("system",) if actor == SYSTEM else governance.roles.get(actor, ())


def require_role(
    governance: GovernanceState, actor: str, allowed: Iterable[Role], what: str
) -> None:
    """Refuse an actor who holds none of the allowed roles."""
    wanted = tuple(allowed)
    held = roles_of(governance, actor)
    if not set(wanted) & set(held):
        raise NotAllowedError(
            f"{actor} must be {_or(wanted)} to {what}, is {', '.join(held) or 'without a role'}"
        )


def _or(words: tuple[str, ...]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def conflict_of_interest(state: LifecycleState, actor: str, version: str) -> str | None:
    """Why somebody cannot approve a version although the role would allow it."""
    asset = state.asset
    if actor == SYSTEM:
        return "the system cannot approve"
    digest = asset.versions[version].digest
    if actor in {known.author for known in asset.versions.values() if known.digest == digest}:
        return f"{actor} is the author of {asset.name}@{version} and cannot approve it"
    if asset.exam_editor == actor:
        return f"{actor} last edited the full pack of {asset.name} and cannot approve by it"
    if state.governance.policy_editor == actor:
        return f"{actor} adopted the release policy and cannot approve by it"
    return None


class ApprovalTally(msgspec.Struct, frozen=True):
    """The approvals that count for one step, and why the others do not."""

    approved: tuple[Approval, ...]
    rejected: tuple[Approval, ...]
    void: tuple[str, ...]

    def by_role(self, governance: GovernanceState, role: Role) -> tuple[Approval, ...]:
        """The yes votes of people who hold a role now."""
        return tuple(vote for vote in self.approved if role in roles_of(governance, vote.actor))


def tally(case: PromotionCase, stage: Stage) -> ApprovalTally:
    """Look through every vote on a step: the last one of each person counts, if it still does."""
    last: dict[str, Approval] = {}
    for vote in case.state.asset.approvals:
        if (vote.version, vote.environment, vote.stage) == (
            case.version,
            case.environment,
            stage,
        ):
            last[vote.actor] = vote
    approved, rejected, void = [], [], []
    for vote in last.values():
        problem = _void_reason(case, vote)
        if problem is not None:
            void.append(f"the vote of {vote.actor} does not count: {problem}")
        elif vote.decision == "approve":
            approved.append(vote)
        elif vote.decision == "reject":
            rejected.append(vote)
    return ApprovalTally(tuple(approved), tuple(rejected), tuple(void))


def _void_reason(case: PromotionCase, vote: Approval) -> str | None:
    governance = case.state.governance
    if case.now >= vote.expires_at:
        return f"it expired at {vote.expires_at:%Y-%m-%d %H:%M:%SZ}"
    if case.now < vote.at:
        return f"it was given at {vote.at:%Y-%m-%d %H:%M:%SZ}, which is yet to come"
    changed = [
        word
        for word, before, after in (
            ("candidate", vote.candidate_digest, case.digest),
            ("cited results", tuple(sorted(vote.result_ids)), tuple(sorted(case.result_ids))),
            ("release policy", vote.policy_digest, governance.policy_digest),
        )
        if before != after
    ]
    if changed:
        return f"the {' and the '.join(changed)} changed since"
    if not set(ApprovalGiven.declared.roles) & set(roles_of(governance, vote.actor)):
        return "the role was taken away"
    if (
        governance.policy.approvals.approvers
        and vote.actor not in governance.policy.approvals.approvers
    ):
        return "the policy names other approvers"
    return conflict_of_interest(case.state, vote.actor, case.version)


def expiry(governance: GovernanceState, now: datetime) -> datetime:
    """Until when an approval given now counts."""
    return now + timedelta(hours=governance.policy.approvals.expire_hours)
