"""Who may do what no decision of the lifecycle covers, such as measurements and reviews.

A store can be used without roles: then a name is only a name, and everybody may. A server lets in
nobody without a role.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from gatemark.core.errors import NotAllowedError
from gatemark.release.lifecycle.decisions.decision import roles_of
from gatemark.release.lifecycle.model.nouns import Role
from gatemark.release.lifecycle.state_cache import read_state
from gatemark.workspace import Workspace

EVALUATING: Final[frozenset[Role]] = frozenset({"evaluator", "author", "pack_owner"})
"""Who runs packs, and makes reviews and label sets."""
MEASURING: Final[frozenset[Role]] = frozenset({"evaluator", "operator"})
SETTLING: Final[frozenset[Role]] = frozenset({"operator", "approver"})
"""Who accepts that a metric has a new level."""


def read_roles(workspace: Workspace, person: str) -> tuple[Role, ...]:
    """Return the current roles of a person."""
    return roles_of(read_state(workspace, "*").governance, person)


def refuse_other_roles(
    workspace: Workspace, person: str, allowed: Collection[Role], what: str
) -> None:
    """Refuse somebody who has roles, but none of these."""
    held = read_roles(workspace, person)
    if held and not set(allowed) & set(held):
        raise NotAllowedError(
            f"{person} must be {' or '.join(sorted(allowed))} to {what}, but is {', '.join(held)}"
        )
