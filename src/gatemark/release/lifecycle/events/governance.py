"""Events that concern every asset: roles, and the release policy in force."""

from __future__ import annotations

from typing import Any, Literal

from gatemark.core.errors import InvalidValueError
from gatemark.release.lifecycle.commands import AdoptPolicy, Command, GrantRoles
from gatemark.release.lifecycle.events.fact import GovernanceFact, LifecycleEvent, event
from gatemark.release.lifecycle.model.nouns import Actor, Digest, Note, Role, look_of
from gatemark.release.lifecycle.model.release_policy import recorded_policy
from gatemark.release.lifecycle.model.state import AccessGrant, GovernanceState


@event("roles_granted", "the roles of a person change", roles=("admin",))
class RolesGranted(GovernanceFact, frozen=True, kw_only=True):
    """From now on a person has exactly these roles; an empty list removes all roles."""

    actor: Actor
    roles: tuple[Role, ...]
    note: Note = ""

    def __post_init__(self) -> None:
        if len(set(self.roles)) != len(self.roles):
            raise InvalidValueError(f"roles of {self.actor} come twice: {', '.join(self.roles)}")

    def apply(self, governance: GovernanceState, event: LifecycleEvent) -> None:
        """Replace the roles of the person, and record who granted the new ones."""
        new = [role for role in self.roles if role not in governance.roles.get(self.actor, ())]
        if new:
            _note_access(governance, event, self.actor, f"the role {', '.join(new)}")
        governance.looks.setdefault(look_of(self.actor), self.actor)
        if self.roles:
            governance.roles[self.actor] = self.roles
        else:
            governance.roles.pop(self.actor, None)

    def commands(self, actor: str) -> tuple[Command, ...]:
        """Return the grant; the payload's ``actor`` is the person who gets the roles."""
        return (GrantRoles(actor=actor, person=self.actor, roles=self.roles, note=self.note),)

    @property
    def label(self) -> str:
        return self.actor

    @property
    def sentence(self) -> str:
        return ", ".join(self.roles) or "no role any more"


def _note_access(
    governance: GovernanceState, event: LifecycleEvent, person: str, what: str
) -> None:
    if event.actor != person:
        grant = AccessGrant(event.seq, event.at, event.actor, what)
        governance.access.setdefault(person, []).append(grant)


@event("access_given", "somebody gives a person a way to sign in", roles=(), is_decided=False)
class AccessGiven(GovernanceFact, frozen=True, kw_only=True):
    """Somebody gave a person access to their account: a link for setting a password."""

    person: Actor
    what: Literal["link"] = "link"

    def apply(self, governance: GovernanceState, event: LifecycleEvent) -> None:
        """Record who could have used the account since."""
        _note_access(governance, event, self.person, f"a {self.what} to set the password")

    @property
    def label(self) -> str:
        return self.person

    @property
    def sentence(self) -> str:
        return f"got a {self.what} to set the password"


@event(
    "policy_changed",
    "a release policy takes effect, the default one included",
    roles=("admin",),
    compared=("policy_digest",),
)
class PolicyAdopted(GovernanceFact, frozen=True, kw_only=True):
    """A release policy takes effect; the complete document is stored."""

    policy: dict[str, Any]
    policy_digest: Digest
    note: Note = ""

    def apply(self, governance: GovernanceState, event: LifecycleEvent) -> None:
        governance.policy = recorded_policy(self.policy)
        governance.policy_digest = self.policy_digest
        governance.policy_editor = event.actor
        governance.policy_seq = event.seq

    def commands(self, actor: str) -> tuple[Command, ...]:
        """Return the adoption; the policy is read from its document."""
        policy = recorded_policy(self.policy)
        return (AdoptPolicy(actor=actor, policy=policy, document=self.policy, note=self.note),)

    @property
    def label(self) -> str:
        return "release policy"

    @property
    def sentence(self) -> str:
        return f"{self.policy['name']}, {self.policy_digest}"
