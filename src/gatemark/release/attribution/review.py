"""Review of a sealed attribution: people accept or reject its proposals.

An attribution does not change anything. A proposed item reaches a golden set only if a pack_owner
who did not judge the decision accepts it, so that nobody's own opinion becomes ground truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

import msgspec
from msgspec import UNSET, Meta

from gatemark.core.atomic import write_whole
from gatemark.core.errors import (
    BadInputError,
    NotAllowedError,
    RefusedError,
    UnknownNameError,
    UsageError,
)
from gatemark.core.stored import read_stored
from gatemark.core.text import check_words
from gatemark.evidence.strict_json import parse_strictly
from gatemark.ledger.event import EventDraft
from gatemark.release.attribution.decision import PlannedDecision
from gatemark.release.attribution.decision_files import MAX_DEPTH, read_bounded
from gatemark.release.attribution.events import ATTRIBUTION_REVIEWED, ATTRIBUTION_SEALED
from gatemark.release.attribution.nouns import Attribution, ProposalKind, Remedy, read_attribution
from gatemark.release.lifecycle.decisions.decision import require_role
from gatemark.release.lifecycle.model.nouns import Note, Role
from gatemark.release.lifecycle.state_cache import read_state
from gatemark.workspace import Workspace

Verdict = Literal["accepted", "rejected"]
JUDGES: Final[dict[ProposalKind, tuple[Role, ...]]] = {
    "golden_item": ("pack_owner",),
    "adversarial_item": ("pack_owner",),
    "rule_gap": ("pack_owner",),
    "routing_note": ("pack_owner", "operator"),
}
ITEMS: Final = ("golden_item", "adversarial_item")
SHORTEST: Final = len("sha256:") + 8


class ReviewAttribution(msgspec.Struct, frozen=True, kw_only=True):
    """Accept or reject what a sealed attribution proposes."""

    attribution: str
    verdicts: Annotated[
        Mapping[ProposalKind, Verdict], Meta(description="Verdict on a proposal, by its kind.")
    ] = {}
    note: Annotated[Note, Meta(description="Reason, recorded in the ledger.")] = ""
    is_in_person: ClassVar[bool] = True


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """One person's decision on one proposal."""

    verdict: Verdict
    by: str
    note: str


class ReviewedAttribution(msgspec.Struct, frozen=True, kw_only=True):
    """An attribution with people's decisions; proposals without one are still open."""

    attribution: Attribution
    reviewer: str
    said: dict[ProposalKind, Said]

    @property
    def accepted(self) -> tuple[Remedy, ...]:
        """The proposals that somebody accepted."""
        return tuple(
            one
            for one in self.attribution.proposals
            if one.kind in self.said and self.said[one.kind].verdict == "accepted"
        )


def sealed_attribution(workspace: Workspace, reference: str) -> ReviewedAttribution:
    """Return a sealed attribution by its id or its beginning, checked against its digest."""
    kept = {
        str(payload["attribution"]): msgspec.convert(payload["blobs"], dict[str, str])
        for _, payload in workspace.events.events(kind=ATTRIBUTION_SEALED)
        if payload is not None
    }
    matching = [name for name in kept if name.startswith(reference)]
    if len(reference) < SHORTEST or len(matching) != 1:
        found = "is not the beginning of one" if len(matching) != 1 else "is too short"
        raise UnknownNameError(f"{reference!r} {found} of {len(kept)} sealed attributions")
    (name,) = matching
    attribution = read_attribution(name, workspace.blobs.get(kept[name]["attribution"]))
    decision = read_stored(workspace.blobs.get(kept[name]["decision"]), PlannedDecision)
    judgement = decision.judgement
    return ReviewedAttribution(
        attribution=attribution,
        reviewer="" if judgement is UNSET else judgement.reviewer,
        said=_read_verdicts(workspace, name),
    )


def review_attribution(workspace: Workspace, request: ReviewAttribution) -> ReviewedAttribution:
    """Accept or reject proposals, recorded in the ledger once each."""
    found, verdicts = sealed_attribution(workspace, request.attribution), request.verdicts
    if not verdicts:
        raise UsageError("name at least one proposal to accept or reject")
    check_words(request.note, "a note")
    _check(workspace, found, verdicts)
    payload = {
        "attribution": found.attribution.id,
        "decision": found.attribution.decision,
        "verdicts": verdicts,
        "note": request.note,
    }
    subject = f"attribution:{found.attribution.id}"
    draft = EventDraft(ATTRIBUTION_REVIEWED, workspace.clock(), workspace.actor, subject, payload)
    workspace.events.append([draft])
    return msgspec.structs.replace(found, said=_read_verdicts(workspace, found.attribution.id))


def accepted_items(found: ReviewedAttribution) -> bytes:
    """Return the accepted items as rows of a data set."""
    items = [one for one in found.accepted if one.kind in ITEMS]
    if not items:
        raise RefusedError(
            f"no item of {found.attribution.id} is accepted yet; a pack_owner accepts it"
        )
    return b"".join(msgspec.json.encode(one.content) + b"\n" for one in items)


def add_accepted(found: ReviewedAttribution, kind: ProposalKind, path: Path) -> int:
    """Add an accepted proposal to a JSON Lines file, citing the attribution; return lines added.

    Adding the same proposal twice changes nothing. Another line with the same id is refused.
    """
    if path.suffix != ".jsonl":
        raise UsageError(f"{path}: proposals are added to JSON Lines files (.jsonl)")
    accepted = [one for one in found.accepted if one.kind == kind]
    if not accepted:
        raise RefusedError(
            f"the {kind.replace('_', ' ')} of {found.attribution.id} is not accepted yet"
        )
    before = read_bounded(str(path)) if path.exists() else b""
    known = {}
    for number, line in enumerate(before.splitlines(), start=1):
        if line.strip():
            value, problems = parse_strictly(line, max_depth=MAX_DEPTH)
            if problems or not isinstance(value, dict):
                raise BadInputError(f"{path}:{number}: expected a JSON object")
            known[value.get("id")] = value
    (row,) = (_cite_proposal(found.attribution, one) for one in accepted)
    if row["id"] in known:
        if known[row["id"]] == msgspec.json.decode(msgspec.json.encode(row)):
            return 0
        raise RefusedError(f"{path}: already has another line with the id {row['id']}")
    gap = b"" if not before or before.endswith(b"\n") else b"\n"
    write_whole(path, [before, gap, msgspec.json.encode(row) + b"\n"])
    return 1


def _cite_proposal(attribution: Attribution, proposal: Remedy) -> dict[str, object]:
    """Return a proposal as one line: a data set row with the citation, or a backlog entry."""
    if proposal.kind in ITEMS:
        tags = msgspec.convert(proposal.content.get("tags", {}), dict[str, str])
        return {**proposal.content, "tags": {**tags, "attribution": attribution.id}}
    return {
        "id": f"attributed-{attribution.decision}",
        "summary": proposal.summary,
        **proposal.content,
        "attribution": attribution.id,
    }


def _check(
    workspace: Workspace, found: ReviewedAttribution, verdicts: Mapping[ProposalKind, Verdict]
) -> None:
    rules = read_state(workspace, "*").governance
    proposed = {one.kind for one in found.attribution.proposals}
    for kind in verdicts:
        if kind not in proposed:
            named_kinds = ", ".join(sorted(proposed)) or "nothing"
            raise UsageError(f"the attribution proposes {named_kinds}, not {kind}")
        require_role(rules, workspace.actor, JUDGES[kind], f"judge a {kind.replace('_', ' ')}")
        if kind in found.said:
            before = found.said[kind]
            raise RefusedError(f"{kind} was {before.verdict} by {before.by} already")
    if workspace.actor == found.reviewer:
        raise NotAllowedError(
            f"{workspace.actor} judged the decision; another person must judge its proposals"
        )


def accepted_by(workspace: Workspace, name: str, kind: ProposalKind) -> str | None:
    """Return who accepted a proposal of a sealed attribution, or None."""
    said = _read_verdicts(workspace, name).get(kind)
    return said.by if said is not None and said.verdict == "accepted" else None


def verdicts_in(payload: Mapping[str, object]) -> dict[ProposalKind, Verdict]:
    """Return what an ``attribution_reviewed`` event says about proposals."""
    return msgspec.convert(payload["verdicts"], dict[ProposalKind, Verdict])


def _read_verdicts(workspace: Workspace, name: str) -> dict[ProposalKind, Said]:
    said: dict[ProposalKind, Said] = {}
    for event, payload in workspace.events.events(subject=f"attribution:{name}"):
        if event.kind == ATTRIBUTION_REVIEWED and payload is not None:
            for kind, verdict in verdicts_in(payload).items():
                said.setdefault(
                    kind, Said(verdict=verdict, by=event.actor, note=str(payload["note"]))
                )
    return said
