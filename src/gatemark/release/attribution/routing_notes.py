"""Routing notes that people accepted, shown with the route of their asset.

A note does not change a route: whoever reads the route decides what to do about it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET

from gatemark.core.errors import IntegrityError, NewerFormatError
from gatemark.core.stored import read_stored
from gatemark.release.attribution.decision import PlannedDecision
from gatemark.release.attribution.events import ATTRIBUTION_SEALED
from gatemark.release.attribution.nouns import read_attribution
from gatemark.release.attribution.review import accepted_by
from gatemark.release.lifecycle.model.nouns import PRODUCTION
from gatemark.release.lifecycle.routing import Route, route
from gatemark.workspace import Workspace

NOTE: Final = "routing_note"


class RoutingNote(msgspec.Struct, frozen=True, kw_only=True):
    """Versions to route around, and the attribution that says why.

    ``version`` is the version of the asset that decided wrongly, if the decision names it.
    """

    attribution: str
    decision: str
    version: str | None
    summary: str
    avoid: dict[str, str]
    accepted_by: str


class NotedRoute(Route, frozen=True, kw_only=True):
    """What to use now, with the accepted notes about it."""

    notes: tuple[RoutingNote, ...]


class AcceptedNotes(NamedTuple):
    """The accepted notes about an asset, and why others cannot be read."""

    notes: list[RoutingNote]
    unreadable: list[str]


def noted_route(workspace: Workspace, asset: str, environment: str = PRODUCTION) -> NotedRoute:
    """Return the route of an asset with the notes about versions in it.

    A note that cannot be read becomes a warning; the route is returned without it.
    """
    found = route(workspace, asset, environment)
    notes, unreadable = accepted_notes(workspace, asset)
    routed = {None, *_list_versions(found)}
    fields = msgspec.structs.asdict(found) | {"warnings": (*found.warnings, *unreadable)}
    return NotedRoute(**fields, notes=tuple(one for one in notes if one.version in routed))


def accepted_notes(workspace: Workspace, asset: str) -> AcceptedNotes:
    """Return the accepted notes of attributions about an asset."""
    found = AcceptedNotes([], [])
    for _, payload in workspace.events.events(kind=ATTRIBUTION_SEALED, subject=asset):
        if payload is None:
            continue
        name = str(payload["attribution"])
        person = accepted_by(workspace, name, NOTE)
        if person is None:
            continue
        blobs = msgspec.convert(payload["blobs"], dict[str, str])
        try:
            found.notes.append(_make_note(workspace, name, blobs, person))
        except (IntegrityError, NewerFormatError) as error:
            found.unreadable.append(f"the routing note of {name} cannot be read: {error}")
    return found


def _make_note(workspace: Workspace, name: str, blobs: dict[str, str], person: str) -> RoutingNote:
    attribution = read_attribution(name, workspace.blobs.get(blobs["attribution"]))
    decision = read_stored(workspace.blobs.get(blobs["decision"]), PlannedDecision)
    (proposal,) = (one for one in attribution.proposals if one.kind == NOTE)
    return RoutingNote(
        attribution=name,
        decision=attribution.decision,
        version=None if decision.version is UNSET else decision.version,
        summary=proposal.summary,
        avoid=msgspec.convert(proposal.content["avoid"], dict[str, str]),
        accepted_by=person,
    )


def _list_versions(found: Route) -> set[str]:
    """Return every version that the route names."""
    targets = [found.primary, found.fallback, *(one.target for one in found.shadow)]
    if found.canary is not None:
        targets += [found.canary.target, found.canary.baseline]
    return {one.version for one in targets if one is not None}
