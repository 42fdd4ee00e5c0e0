"""An attribution: which step made a decision go wrong, the evidence, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from gatemark.core.canonical import (
    canonical_bytes,
    digest_bytes,
    document_members,
    join_members,
)
from gatemark.core.errors import IntegrityError, InvalidValueError, NewerFormatError
from gatemark.core.stored import is_newer, newer_format, read_stored

SCHEMA: Final = "gatemark.attribution/1"

Confidence = Literal["high", "medium", "low", "none"]
ProposalKind = Literal["golden_item", "adversarial_item", "rule_gap", "routing_note"]
Catch = Literal["caught_then", "catchable_now", "no_rule", "not_asked"]


class SuspectLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step with the evidence against it; the most suspect comes first.

    ``probability`` is what the clues of the record say, if they could be read.
    """

    rank: int
    step: str
    kind: str
    name: str
    confidence: Confidence
    why: str
    right_after_repair: float | None
    interval: tuple[float, float] | None
    by_versions: float | None
    by_versions_interval: tuple[float, float] | None
    recorded: tuple[str, ...]
    company: float | None
    probability: float | None = None


class PlanStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A step as the drawing needs it."""

    id: str
    kind: str
    name: str
    sources: tuple[str, ...]


class VerifierFinding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether the verifier should have caught the cause, and which rules could."""

    catch: Catch
    rules: tuple[tuple[str, str], ...]


class ReplayFact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How steps were run again; ``mode`` is none if they were not, and ``reason`` says why.

    ``unused`` are reference names that no step of the plan has; ``calls`` is how often a target was
    called.
    """

    mode: Literal["live", "recorded", "none"]
    repeats: int
    seed: int
    reference: dict[str, str]
    reason: str | None
    unused: tuple[str, ...] = ()
    calls: int = 0


class ChangeSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The smallest set of changed versions that still makes the decision go wrong."""

    changed: tuple[str, ...]
    smallest: tuple[str, ...]
    is_minimal: bool
    tests: int
    unknown: int
    reason: str | None


class Remedy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A proposal for a person to accept: an item, a rule, a route."""

    kind: ProposalKind
    summary: str
    content: dict[str, object]


class Attribution(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that was found about one wrong decision. ``id`` is the digest of the rest.

    ``by_name`` sums the probabilities of the steps with the same name, such as an agent's.
    """

    id: str
    schema: Literal["gatemark.attribution/1"]
    decision: str
    decision_digest: str
    cause: str | None
    reason: str | None
    suspects: tuple[SuspectLine, ...]
    active: dict[str, str]
    verifier: VerifierFinding | None
    replay: ReplayFact
    changes: ChangeSet | None
    company: tuple[tuple[str, float], ...]
    proposals: tuple[Remedy, ...]
    plan: tuple[PlanStep, ...]
    by_name: tuple[tuple[str, float], ...] = ()


def add_id(attribution: Attribution) -> Attribution:
    """Return the attribution with its id."""
    identity = _compute_identity(document_members(canonical_bytes(attribution)))
    return msgspec.structs.replace(attribution, id=identity)


def read_attribution(identity: str, document: bytes) -> Attribution:
    """Return a stored attribution; its bytes must match its id.

    Raises NewerFormatError for a format that only a newer build knows.
    """
    try:
        members = document_members(document)
        schema = msgspec.json.decode(members["schema"], type=str)
        said = msgspec.json.decode(members["id"], type=str)
        if is_newer(schema, SCHEMA):
            raise NewerFormatError(f"attribution {identity} {newer_format(schema)}")
        if not said == identity == _compute_identity(members):
            raise IntegrityError(
                f"attribution {identity} differs from what was sealed under this id"
            )
        return read_stored(document, Attribution)
    except (InvalidValueError, KeyError, msgspec.MsgspecError) as error:
        raise IntegrityError(f"attribution {identity} cannot be read: {error}") from error


def _compute_identity(members: Mapping[str, msgspec.Raw]) -> str:
    return digest_bytes(join_members(members, members.keys() - {"id"}))
