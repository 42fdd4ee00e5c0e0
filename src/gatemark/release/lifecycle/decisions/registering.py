"""Decide on roles, the release policy and the versions of an asset."""

from __future__ import annotations

from typing import Final

from gatemark.core.canonical import digest, plain
from gatemark.core.errors import InvalidValueError, RefusedError
from gatemark.ledger.event_kinds import SYSTEM
from gatemark.release.lifecycle.commands import AddVersion, AdoptPolicy, GrantRoles
from gatemark.release.lifecycle.decisions.decision import DecisionMoment, decides, require_role
from gatemark.release.lifecycle.default_policy import default_digest
from gatemark.release.lifecycle.events.approvals import APPROVING
from gatemark.release.lifecycle.events.fact import Facts
from gatemark.release.lifecycle.events.governance import PolicyAdopted, RolesGranted
from gatemark.release.lifecycle.events.versions import VersionAdded
from gatemark.release.lifecycle.model.nouns import Role, look_of, name_problem
from gatemark.release.lifecycle.model.stages import LANE, lane_of
from gatemark.release.lifecycle.model.state import GovernanceState, LifecycleState

_APART_FROM_ADMIN: Final[frozenset[Role]] = frozenset(
    {*APPROVING, "author", "evaluator", "operator"}
)
"""Roles that take part in a release; an admin, who grants roles, has none of them."""


@decides(GrantRoles)
def decide_grant(state: LifecycleState, command: GrantRoles, _moment: DecisionMoment) -> Facts:
    """Decide a grant of roles: only by an admin, except that the first person becomes admin."""
    governance = state.governance
    if command.person == SYSTEM or "system" in command.roles:
        raise RefusedError("the role of the system cannot be granted to a person")
    _check_duties(governance, command)
    _check_name(governance, command.person)
    admins = {name for name, roles in governance.roles.items() if "admin" in roles}
    if not admins:
        if command.person != command.actor or "admin" not in command.roles:
            raise RefusedError(
                f"there is no admin yet: {command.actor} must first grant admin to themselves"
            )
    else:
        require_role(governance, command.actor, RolesGranted.declared.roles, "grant roles")
        if admins == {command.person} and "admin" not in command.roles:
            raise RefusedError(
                f"{command.person} is the last admin; grant admin to another person first"
            )
    if governance.roles.get(command.person, ()) == command.roles:
        return ()
    return (RolesGranted(actor=command.person, roles=command.roles, note=command.note),)


def _check_duties(governance: GovernanceState, command: GrantRoles) -> None:
    """Refuse roles that one person must not have together."""
    if governance.policy.one_person:
        others = set(governance.looks.values()) - {command.person}
        if command.roles and others:
            raise RefusedError(
                f"this store is in one-person mode, for {', '.join(sorted(others))}; before "
                "somebody else gets a role, adopt a release policy without one_person: "
                "gatemark policy adopt FILE"
            )
        return
    if "admin" not in command.roles:
        return
    both = [role for role in command.roles if role in _APART_FROM_ADMIN]
    if both:
        raise RefusedError(
            f"admin cannot be combined with {', '.join(both)}: whoever grants roles takes no part "
            "in a release; grant admin to another person, or, where you work alone, adopt a "
            "release policy with one_person: true first (gatemark policy adopt FILE)"
        )


def _check_name(governance: GovernanceState, person: str) -> None:
    """Refuse a name that looks like another: two such names could be two votes of one person."""
    problem = name_problem(person)
    if problem is not None:
        raise InvalidValueError(problem)
    known = governance.looks.get(look_of(person), person)
    if known != person:
        raise RefusedError(f"{person!r} looks like {known!r}, who already exists")


@decides(AdoptPolicy)
def decide_adopt(state: LifecycleState, command: AdoptPolicy, _moment: DecisionMoment) -> Facts:
    """Decide on a release policy: only an admin, who cannot approve, may adopt one.

    One-person mode is only for a store in which nobody else has a role: an admin could otherwise
    use it to bypass approvals.

    The system may only record the default policy of a new store, as its first event.
    """
    governance = state.governance
    document = plain(command.policy) if command.document is None else command.document
    policy_digest = digest(document)
    if command.actor == SYSTEM:
        if governance.revision or policy_digest != default_digest():
            raise RefusedError("the system can only adopt the default policy, as the first act")
    else:
        require_role(
            governance, command.actor, PolicyAdopted.declared.roles, "adopt a release policy"
        )
        others = sorted(set(governance.looks.values()) - {command.actor})
        if command.policy.one_person and others:
            raise RefusedError(
                f"one_person is for a store of one person, but {', '.join(others)} "
                f"{'has or had a role' if len(others) == 1 else 'have or had roles'} here"
            )
        if policy_digest == governance.policy_digest:
            return ()
    return (PolicyAdopted(policy=document, policy_digest=policy_digest, note=command.note),)


@decides(AddVersion)
def decide_add(state: LifecycleState, command: AddVersion, _moment: DecisionMoment) -> Facts:
    """Decide a new version; the same one again has no effect, another with its name is refused."""
    require_role(state.governance, command.actor, VersionAdded.declared.roles, "add a version")
    asset = state.asset
    if asset.kind is not None and (asset.kind, asset.risk) != (command.kind, command.risk):
        raise RefusedError(
            f"{asset.name} is a {asset.kind} of {asset.risk} risk, "
            f"not a {command.kind} of {command.risk} risk"
        )
    if command.kind == LANE and lane_of(asset.name) == asset.name:
        raise RefusedError(
            f"an advisory lane is registered by its name with a dot for the slash, such as "
            f"context_gate.openvino_context_gate; got {asset.name}"
        )
    if command.parent is not None and command.parent not in asset.versions:
        known = ", ".join(asset.versions) or "none"
        raise RefusedError(f"{asset.name} has no version {command.parent} (known: {known})")
    fact = VersionAdded(
        asset=asset.name,
        kind=command.kind,
        version=command.version,
        digest=command.digest,
        author=command.actor,
        risk=command.risk,
        parent=command.parent,
        pins=command.pins,
        schema=command.schema,
        is_scope_change=command.is_scope_change,
        note=command.note,
    )
    known_version = asset.versions.get(command.version)
    if known_version is None:
        return (fact,)
    pairs = (
        ("content", known_version.digest, fact.digest),
        ("pins", known_version.pins, fact.pins),
        ("parent", known_version.parent, fact.parent),
        ("schema", known_version.schema, fact.schema),
        ("scope", known_version.is_scope_change, fact.is_scope_change),
    )
    other = [word for word, known, given in pairs if known != given]
    if not other:
        return ()
    raise RefusedError(
        f"{asset.name}@{command.version} already exists with other {' and '.join(other)}; "
        "a changed candidate is a new version"
    )
