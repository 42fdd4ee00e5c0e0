"""Payloads that the ledger reads of its own events.

Whoever writes these events may add fields; the fields named here must be there and mean this.
Digests are ``sha256:…`` texts, moments are UTC with Z. The actor of an event is the one who did
it: the approver of an approval, the author's own login of a registration.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from gatemark.core.policy import Outcome
from gatemark.core.result import AssetRef, PackRef
from gatemark.core.stored import convert_stored

FIRST_RESULT_FORMAT: Final = "gatemark.result/1"
"""What was sealed by an event that does not say so: 0.1.0 knew no other."""

RULES_VERSION: Final = 3
"""The version of the lifecycle's rules that this build decides by; each decision names it."""

DECIDED_BY: Final = "decided_by"
"""The member of a payload that names the policy and the rules a decision was made by."""

SYSTEM: Final = "system"
"""The actor of what the machine does by itself."""


class ResultSealed(msgspec.Struct, frozen=True):
    """Payload of ``result_sealed``: a result entered the store, or was reached once more.

    The same answers judged again give the same result on another occasion: the store keeps the
    first, and the ledger tells of each. ``occasion`` is what ``stamp`` covers beside the id.
    """

    result_id: str
    stamp: str
    verdict: Outcome
    candidate: AssetRef | None
    baseline: AssetRef | None
    pack: PackRef
    policy_digest: str
    occasion: dict[str, Any]
    result_format: str = FIRST_RESULT_FORMAT


class KeyAdded(msgspec.Struct, frozen=True):
    """Payload of ``key_added``: the first key; ``note`` names ledger and key, signed by the key."""

    key: str
    note: str


class KeyRotated(msgspec.Struct, frozen=True):
    """Payload of ``key_rotated``: ``note`` names ledger and both keys, signed by both."""

    old: str
    new: str
    note: str


class KeyReplaced(msgspec.Struct, frozen=True):
    """Payload of ``key_replaced_without_signature``: the old key could not sign any more."""

    old: str
    new: str
    note: str
    reason: str


class PayloadErased(msgspec.Struct, frozen=True):
    """Payload of ``payload_erased``: the tombstone of one event's payload."""

    seq: int
    payload_digest: str
    reason: str


class BlobErased(msgspec.Struct, frozen=True):
    """Payload of ``blob_erased``: the tombstone of one blob."""

    digest: str
    reason: str


class DecidedBy(msgspec.Struct, frozen=True):
    """What decided an act of the lifecycle: the release policy in force, and the rules' version.

    Decisions of 0.1.0 do not say so; they were made by version 1.
    """

    policy_digest: str
    rules: Annotated[int, msgspec.Meta(ge=1)]


def is_by_newer_rules(payload: Mapping[str, object]) -> bool:
    """Whether a decision was made by rules that only a newer build has."""
    said = payload.get(DECIDED_BY)
    rules = said.get("rules") if isinstance(said, dict) else None
    return isinstance(rules, int) and rules > RULES_VERSION


def sealed_format(payload: Mapping[str, object]) -> str:
    """The format of the result that a ``result_sealed`` event tells of."""
    return str(payload.get("result_format", FIRST_RESULT_FORMAT))


def sealed_moment(payload: Mapping[str, object]) -> datetime:
    """Return when the result that a ``result_sealed`` event tells of was finished."""
    return convert_stored(payload, _Sealed).occasion.finished_at


class _Occasion(msgspec.Struct, frozen=True):
    finished_at: datetime


class _Sealed(msgspec.Struct, frozen=True):
    occasion: _Occasion


def as_payload(value: msgspec.Struct) -> dict[str, object]:
    """A typed payload in the plain form that a draft takes."""
    plain: dict[str, object] = msgspec.to_builtins(value)
    return plain
