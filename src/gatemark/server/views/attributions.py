"""Sealed attributions of wrong decisions, and the verdicts on what they propose."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from fastapi import Path, Response

from gatemark.ledger.event import Event
from gatemark.release.attribution.events import ATTRIBUTION_REVIEWED, ATTRIBUTION_SEALED
from gatemark.release.attribution.nouns import ProposalKind
from gatemark.release.attribution.review import (
    JUDGES,
    ReviewAttribution,
    ReviewedAttribution,
    accepted_items,
    review_attribution,
    sealed_attribution,
    verdicts_in,
)
from gatemark.release.attribution.views import attribution_context
from gatemark.server.accounts.identity import Identity
from gatemark.server.doors import Context, Doors, Visit
from gatemark.server.parameters import Cursor, Limit
from gatemark.server.render import download, show_content
from gatemark.server.request_body import FormFields
from gatemark.workspace import Workspace

doors = Doors("attributions", {"attribution": Path(pattern=r"^sha256:[0-9a-f]{8,64}$")})
SHOWN: Final = 50


class AttributionLine(msgspec.Struct, frozen=True, kw_only=True):
    """An attribution in a list; ``waiting`` counts the proposals without a verdict."""

    attribution: str
    seq: int
    decision: str
    asset: str | None
    cause: str | None
    at: datetime
    by: str
    proposed: int
    waiting: int


class AttributionList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of attributions, newest first, and the cursor of the next page."""

    items: tuple[AttributionLine, ...]
    next: str | None


class AttributionCard(msgspec.Struct, frozen=True, kw_only=True):
    """An attribution with the verdicts on its proposals, and those that the caller may judge.

    ``why_not`` says why a caller with the role may not.
    """

    found: ReviewedAttribution
    may_judge: tuple[ProposalKind, ...]
    why_not: str | None


def attribution_list(
    workspace: Workspace, *, before: int | None = None, limit: int = 50
) -> AttributionList:
    """Return attributions with event numbers below ``before``, newest first."""
    older = [one for one in _list_seals(workspace) if before is None or one[0].seq < before]
    shown = older[:limit]
    judged = _find_judged(workspace)
    items = tuple(_make_line(event, payload, judged) for event, payload in shown)
    return AttributionList(items=items, next=str(items[-1].seq) if len(older) > limit else None)


def waiting_attributions(
    workspace: Workspace, identity: Identity, limit: int
) -> tuple[AttributionLine, ...]:
    """Return the newest attributions with a proposal that the caller may judge."""
    if not any(set(roles) & set(identity.roles) for roles in JUDGES.values()):
        return ()
    newest = attribution_list(workspace, limit=limit).items
    return tuple(
        line
        for line in newest
        if line.waiting and attribution_card(workspace, identity, line.attribution).may_judge
    )


def attribution_card(workspace: Workspace, identity: Identity, reference: str) -> AttributionCard:
    """Return one attribution, as the caller sees it."""
    found = sealed_attribution(workspace, reference)
    open_kinds = [one.kind for one in found.attribution.proposals if one.kind not in found.said]
    held = [kind for kind in open_kinds if set(JUDGES[kind]) & set(identity.roles)]
    why_not = None
    if held and identity.person == found.reviewer:
        why_not = "you judged the decision; another person must judge its proposals"
    return AttributionCard(found=found, may_judge=() if why_not else tuple(held), why_not=why_not)


def _list_seals(workspace: Workspace) -> list[tuple[Event, Mapping[str, Any]]]:
    """Return the seal events, newest first; only the last seal of an attribution counts."""
    found = {
        payload["attribution"]: (event, payload)
        for event, payload in workspace.events.events(kind=ATTRIBUTION_SEALED)
        if payload is not None
    }
    return sorted(found.values(), key=lambda one: one[0].seq, reverse=True)


def _find_judged(workspace: Workspace) -> dict[str, set[str]]:
    judged: dict[str, set[str]] = {}
    for _, payload in workspace.events.events(kind=ATTRIBUTION_REVIEWED):
        if payload is not None:
            judged.setdefault(str(payload["attribution"]), set()).update(verdicts_in(payload))
    return judged


def _make_line(
    event: Event, payload: Mapping[str, Any], judged: Mapping[str, set[str]]
) -> AttributionLine:
    # Events of earlier builds lack decision and proposals; read them from the attribution.
    name, proposed = str(payload["attribution"]), set(payload.get("proposals", ()))
    return AttributionLine(
        attribution=name,
        seq=event.seq,
        decision=str(payload.get("decision", "not named")),
        asset=event.subject,
        cause=payload["cause"],
        at=event.at,
        by=event.actor,
        proposed=len(proposed),
        waiting=len(proposed - judged.get(name, set())),
    )


@doors.view("/attributions", AttributionList)
def list_attributions(visit: Visit, before: Cursor = None, limit: Limit = SHOWN) -> AttributionList:
    """List attributions, newest first."""
    return attribution_list(visit.workspace, before=before, limit=limit)


@list_attributions.page("/attributions", "attributions.html", limit=SHOWN)
def attributions_page(document: AttributionList) -> Context:
    """Show every sealed attribution, newest first."""
    return {"title": "Failures", "view": document}


@doors.view("/attributions/{attribution}", AttributionCard)
def one_attribution(visit: Visit, attribution: str) -> AttributionCard:
    """Return an attribution with its proposals, and which of them the caller may judge."""
    return attribution_card(visit.workspace, visit.identity, attribution)


@one_attribution.page("/attributions/{attribution}", "attributed.html")
def attribution_page(document: AttributionCard) -> Context:
    """Show an attribution with its steps drawn, and the form for its proposals."""
    found = document.found
    messages: dict[str, str] = {
        kind: f"{said.verdict} by {said.by}" for kind, said in found.said.items()
    }
    return {
        **attribution_context(found.attribution, messages),
        "title": f"Decision {found.attribution.decision}",
        "card": document,
        "contents": {one.kind: show_content(one.content) for one in found.attribution.proposals},
        "has_items": any(one.kind.endswith("_item") for one in found.accepted),
        "judge": FormFields(ReviewAttribution),
    }


@doors.act("/attributions/{attribution}/verdicts", AttributionCard, command=ReviewAttribution)
def post_verdicts(visit: Visit, command: ReviewAttribution) -> AttributionCard:
    """Accept or reject proposals. Needs a session."""
    found = review_attribution(visit.acting, command)
    return attribution_card(visit.workspace, visit.identity, found.attribution.id)


post_verdicts.form("/attributions/{attribution}", to="/attributions/{attribution}", done="judged")


@doors.view("/attributions/{attribution}/items", bytes)
def get_items(visit: Visit, attribution: str) -> Response:
    """Return the accepted items as rows of a data set."""
    rows = accepted_items(sealed_attribution(visit.workspace, attribution))
    return Response(rows, media_type="application/x-ndjson")


@doors.page("/attributions/{attribution}/items")
def items_file(visit: Visit, attribution: str) -> Response:
    """Return the same as a file."""
    found = sealed_attribution(visit.workspace, attribution)
    return download(iter((accepted_items(found),)), found.attribution.id)
