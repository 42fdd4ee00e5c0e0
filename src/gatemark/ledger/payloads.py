"""Payloads of the events that the ledger and the checks of tables read.

Whoever writes these events may add fields; the fields named here must be there and mean this.
Digests are ``sha256:…`` texts, moments are UTC with Z. The actor of an event is the one who did
it: the approver of an approval, the author's own login of a registration.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from gatemark.core.change import AssetRef
from gatemark.core.result import PackRef
from gatemark.core.verdict import Outcome
from gatemark.ledger.event_kinds import (
    APPROVAL,
    ASSET_REGISTERED,
    ATTRIBUTION_REVIEWED,
    ATTRIBUTION_SEALED,
    BLOB_ERASED,
    BREAK_GLASS,
    BREAK_GLASS_REVIEWED,
    CANARY_JUDGED,
    CANARY_WINDOW,
    CLOCK_SET_BACK,
    DRIFT_RECORDED,
    DRIFT_SIGNAL,
    EXAM_SET,
    KEY_ADDED,
    KEY_REPLACED,
    KEY_ROTATED,
    LABELS_ACCEPTED,
    LEDGER_OPENED,
    OVERRIDE,
    PAUSE,
    PAYLOAD_ERASED,
    POINTS_PUSHED,
    POLICY_CHANGED,
    RESULT_SEALED,
    REVIEW_CREATED,
    REVIEW_LOOKED_AT,
    REVIEW_UNBLINDED,
    ROLES_GRANTED,
    SERVICE_REPORTED,
    TRANSITION,
    WAIVER,
    WATCH_CLOSED,
)

NEVER_ERASED: Final = frozenset(
    {
        RESULT_SEALED,
        ASSET_REGISTERED,
        APPROVAL,
        TRANSITION,
        DRIFT_SIGNAL,
        WAIVER,
        OVERRIDE,
        BREAK_GLASS,
        POLICY_CHANGED,
        EXAM_SET,
        CANARY_JUDGED,
        LEDGER_OPENED,
        KEY_ADDED,
        KEY_ROTATED,
        KEY_REPLACED,
        PAYLOAD_ERASED,
        BLOB_ERASED,
        CLOCK_SET_BACK,
        ROLES_GRANTED,
        PAUSE,
        BREAK_GLASS_REVIEWED,
        CANARY_WINDOW,
        WATCH_CLOSED,
        SERVICE_REPORTED,
        REVIEW_CREATED,
        REVIEW_LOOKED_AT,
        REVIEW_UNBLINDED,
        LABELS_ACCEPTED,
        ATTRIBUTION_SEALED,
        ATTRIBUTION_REVIEWED,
        POINTS_PUSHED,
        DRIFT_RECORDED,
    }
)
"""Kinds that decisions rest on, or that stages are replayed from."""

DECISIONS: Final = frozenset({APPROVAL, TRANSITION, WAIVER, OVERRIDE, BREAK_GLASS})
"""Kinds that leave the ledger as signed statements."""

DECIDED: Final = frozenset(
    {
        ROLES_GRANTED,
        POLICY_CHANGED,
        ASSET_REGISTERED,
        EXAM_SET,
        APPROVAL,
        WAIVER,
        OVERRIDE,
        TRANSITION,
        PAUSE,
        BREAK_GLASS,
        BREAK_GLASS_REVIEWED,
        CANARY_WINDOW,
        CANARY_JUDGED,
        WATCH_CLOSED,
        SERVICE_REPORTED,
    }
)
"""Kinds that the rules of the lifecycle decide; each names its policy and rules."""

FIRST_RESULT_FORMAT: Final = "gatemark.result/1"
"""What was sealed by an event that does not say so: 0.1.0 knew no other."""

RULES_VERSION: Final = 1
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


class PointsPushed(msgspec.Struct, frozen=True):
    """Payload of ``points_pushed``: rows of drift points that were written with this event.

    ``digest`` covers the rows (``watch.batches`` says how), ``rows`` counts them. ``assets`` names
    the first of them by name; ``asset_count`` says how many there are. An ``adopted`` batch covers
    the rows that were there before pushes had events.
    """

    rows: int
    digest: str
    pushed_at: datetime
    asset_count: int
    assets: tuple[str, ...]
    adopted: bool = False


class TableChange(msgspec.Struct, frozen=True):
    """A table before and after it was written: the digest of its rows, and their number after."""

    rows: int
    before: str
    after: str


class DriftRecorded(msgspec.Struct, frozen=True):
    """Payload of ``drift_recorded``: what a probe, or closing an episode, wrote down.

    ``tick`` is the number of the recording. The tables are whole ones, so that an edit between two
    recordings stays visible: what one found must be what the one before it left.
    """

    tick: int
    memories: TableChange
    episodes: TableChange


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


def is_by_newer_rules(payload: Mapping[str, Any]) -> bool:
    """Whether a decision was made by rules that only a newer build has."""
    said = payload.get(DECIDED_BY)
    rules = said.get("rules") if isinstance(said, dict) else None
    return isinstance(rules, int) and rules > RULES_VERSION


def sealed_format(payload: Mapping[str, Any]) -> str:
    """The format of the result that a ``result_sealed`` event tells of."""
    return str(payload.get("result_format", FIRST_RESULT_FORMAT))


def as_payload(value: msgspec.Struct) -> dict[str, Any]:
    """A typed payload in the plain form that a draft takes."""
    plain: dict[str, Any] = msgspec.to_builtins(value)
    return plain
