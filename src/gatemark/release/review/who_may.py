"""Who may make a review, judge in one, and close it, whichever door they came through."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from gatemark.core.errors import NotAllowedError
from gatemark.release.lifecycle.model.nouns import Role
from gatemark.release.lifecycle.roles import EVALUATING, read_roles, refuse_other_roles
from gatemark.release.review.plan import StoredReview
from gatemark.workspace import Workspace

JUDGES: Final[frozenset[Role]] = EVALUATING | {"approver", "security_approver", "operator"}
"""Roles that may judge without being named; others may only if the plan names them."""
CLOSERS: Final[tuple[Role, ...]] = ("pack_owner", "evaluator")


def is_judge(roles: Collection[str], person: str, named: Collection[str | None]) -> bool:
    """Return whether somebody with these roles may judge."""
    return person in named or not roles or bool(JUDGES & set(roles))


def require_judge(workspace: Workspace, person: str, named: Collection[str | None]) -> None:
    """Refuse people whose roles do not judge, unless the plan names them."""
    held = read_roles(workspace, person)
    if not is_judge(held, person, named):
        raise NotAllowedError(f"{person} is {', '.join(held)} and may look but not judge")


def require_maker(workspace: Workspace, what: str) -> None:
    """Refuse an actor whose roles do not make evaluations."""
    refuse_other_roles(workspace, workspace.actor, EVALUATING, what)


def may_close(stored: StoredReview, person: str, roles: Collection[str]) -> bool:
    """Return whether somebody may close a review: who made it, or by a role."""
    return person == stored.created_by or bool(set(CLOSERS) & set(roles))


def require_closer(workspace: Workspace, stored: StoredReview) -> None:
    """Refuse actors who neither made the review nor have a role that may close it."""
    held = read_roles(workspace, workspace.actor)
    if not may_close(stored, workspace.actor, held):
        raise NotAllowedError(
            f"{workspace.actor} must be {' or '.join(CLOSERS)} to close a review of "
            f"{stored.created_by}, is {', '.join(held) or 'without a role'}"
        )
