"""The kinds of ledger events, and the payloads of the ledger's own events.

Kind names are stored and never change. A feature declares its kinds in its module ``events``;
those of the ledger itself are declared here. The declarations determine the list of formats, what
can be erased, what is exported as a signed statement, and what the lifecycle rules decide. A store
may hold events of a feature that is not installed: they count as those of a newer build.

A writer may add fields to a payload; the fields declared here are required. Digests are
``sha256:…`` strings and times are UTC with Z. The actor of an event is whoever acted, such as the
approver of an approval.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.core.policy import Outcome
from gatemark.core.registry import feature_modules, list_modules
from gatemark.core.result import AssetRef, PackRef
from gatemark.core.rules import RulesVersions
from gatemark.core.stored import convert_stored, parse_format


@dataclass(frozen=True)
class EventKind:
    """One kind of event.

    ``when`` completes the sentence "written when …". ``payload`` is the struct of its payload, if
    one is declared. ``roles`` may cause it; empty if roles do not matter. A kind that is not
    ``kept`` can lose its payload to ``ledger erase``: no decision or state depends on it.
    """

    name: str
    when: str
    _: KW_ONLY
    payload: type | None = None
    roles: tuple[str, ...] = ()
    version: int = 1
    is_kept: bool = True
    is_statement: bool = False
    """Exported as a signed statement."""
    is_decided: bool = False
    """Decided by the lifecycle rules; the payload names the policy and the rules version."""

    @property
    def family(self) -> str:
        """Format name without the version."""
        return f"gatemark.event.{self.name}"

    @property
    def format(self) -> str:
        """The format in which this build writes the payload."""
        return f"{self.family}/{self.version}"


K = TypeVar("K", bound=EventKind)
_DECLARED: Final[dict[str, EventKind]] = {}


def declare(kind: K) -> K:
    """Register a kind of event and return it."""
    if kind.name in _DECLARED:
        raise InvalidValueError(f"two kinds of event are called {kind.name!r}")
    _DECLARED[kind.name] = kind
    return kind


def declare_plain(name: str, when: str, *, is_kept: bool = True) -> str:
    """Register a kind of event without a declared payload, and return its name."""
    return declare(EventKind(name, when, is_kept=is_kept)).name


def event_kinds() -> Mapping[str, EventKind]:
    """Return every kind of event that this build writes, by name."""
    _load_features()
    return MappingProxyType(_DECLARED)


def find_kind(name: str) -> EventKind | None:
    """Return the kind with that name, or None for an unknown kind, which the ledger only stores."""
    _load_features()
    return _DECLARED.get(name)


@cache
def _load_features() -> None:
    """Import the module ``events`` of each feature that has one."""
    for place in feature_modules("events"):
        for module in list_modules(place):
            importlib.import_module(module)


def is_kept(name: str) -> bool:
    """Whether the payload of a kind can never be erased."""
    kind = find_kind(name)
    return kind is not None and kind.is_kept


def is_statement(name: str) -> bool:
    """Whether events of a kind are exported as signed statements."""
    kind = find_kind(name)
    return kind is not None and kind.is_statement


def payload_format(name: str) -> str | None:
    """Return the payload format of a kind, or None for an unknown kind."""
    kind = find_kind(name)
    return None if kind is None else kind.format


def check_payload_format(name: str, said: object) -> bool:
    """Whether this build can read a payload with this format name.

    Raises InvalidValueError for a name that is not a format or belongs to another kind; only an
    unknown kind may have none.
    """
    if said == payload_format(name):
        return True
    family, version = parse_format(said) or ("", 0)
    if family != f"gatemark.event.{name}":
        raise InvalidValueError(f"{said!r} is not a format of {name}")
    kind = find_kind(name)
    return kind is not None and version <= kind.version


RESULT_SEALED: Final = declare_plain(
    "result_sealed", "a result is sealed, or the same judgement is reached again"
)
LEDGER_OPENED: Final = declare_plain("ledger_opened", "a ledger is opened before its first key")
KEY_ADDED: Final = declare_plain("key_added", "the first signing key is added")
KEY_ROTATED: Final = declare_plain("key_rotated", "a key follows another, signed by both")
KEY_REPLACED: Final = declare_plain("key_replaced_without_signature", "a lost key is replaced")
PAYLOAD_ERASED: Final = declare_plain("payload_erased", "a payload is erased")
BLOB_ERASED: Final = declare_plain("blob_erased", "a blob is erased")
CONTENT_ERASED: Final = declare_plain(
    "content_erased", "the texts of a result, a pair of a review or an item of labels are erased"
)
CLOCK_SET_BACK: Final = declare_plain(
    "clock_set_back", "times start again after a clock that was ahead"
)
CHECKPOINT_ASKED: Final = declare_plain(
    "checkpoint_asked", "somebody asks for a signed checkpoint in the page", is_kept=False
)

# Kinds that the ledger reads too; the lifecycle and drift declare them.
ASSET_REGISTERED: Final = "asset_registered"
APPROVAL: Final = "approval"
TRANSITION: Final = "transition"
BREAK_GLASS: Final = "break_glass"
REQUIRED_PACK_SET: Final = "required_pack_set"
CANARY_JUDGED: Final = "canary_judged"
DRIFT_SIGNAL: Final = "drift_signal"
POINTS_PUSHED: Final = "points_pushed"
DRIFT_RECORDED: Final = "drift_recorded"
LIFECYCLE_RULES: Final = RulesVersions("lifecycle")
"""Versions of the lifecycle rules; every decision names the one that it was made by."""

DECIDED_BY: Final = "decided_by"
"""Payload field that names the policy and the rules version behind a decision."""

SYSTEM: Final = "system"
"""Actor of automatic actions."""


class ResultSealed(msgspec.Struct, frozen=True):
    """Payload of ``result_sealed``: a result was stored, or reached again.

    Judging the same answers again gives the same result on another occasion: the store keeps the
    first, and the ledger records each. ``stamp`` covers the id and ``occasion``.
    """

    result_id: str
    stamp: str
    verdict: Outcome
    candidate: AssetRef | None
    baseline: AssetRef | None
    pack: PackRef
    policy_digest: str
    occasion: dict[str, Any]
    result_format: str

    @property
    def finished_at(self) -> datetime:
        """When the result was reached; msgspec.ValidationError if the occasion does not say it."""
        return msgspec.convert(self.occasion.get("finished_at"), datetime)


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
    """Payload of ``key_replaced_without_signature``: the old key was lost and could not sign."""

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


ErasableKind = Literal["result", "pair", "item"]


class ContentErased(msgspec.Struct, frozen=True):
    """Payload of ``content_erased``: the tombstone of a stored document.

    ``name`` is the id of the result, the review or the label set, ``number`` that of the pair or
    item (0 for a result). ``digest`` is what the ledger knew the document by: the id of the result,
    the SHA-256 of the pair or item. ``remains`` is the document without its texts.
    """

    what: ErasableKind
    name: str
    number: int
    digest: str
    reason: str
    remains: dict[str, object]


class Channel(msgspec.Struct, frozen=True):
    """How an action reached Gatemark, and how its actor was authenticated.

    ``way`` is ``session``, ``token``, ``command_line`` or ``server`` (an automatic action).
    ``authentication`` is ``password``, ``openid ISSUER``, ``link`` (of the first admin), ``token
    ID``, ``os_user NAME`` (the actor's name is only claimed by that user) or ``none``.
    """

    way: str
    authentication: str

    @property
    def words(self) -> str:
        """The channel as readable text."""
        kind, _, detail = self.authentication.partition(" ")
        if kind == "os_user":
            return f"{self.way.replace('_', ' ')} of {detail}, name not proven"
        if self.way == "token":
            return self.authentication
        return f"{self.way.replace('_', ' ')}, {self.authentication}"


class DecidedBy(msgspec.Struct, frozen=True):
    """What a lifecycle decision was made by: the policy in force, the rules, and the channel."""

    policy_digest: str
    rules: int
    channel: Channel


def check_decided_by(payload: Mapping[str, object]) -> None:
    """Raise OtherRulesError for a decision that this build cannot decide again.

    Raises IntegrityError if it names no rules, or rules that were never released.
    """
    said = payload.get(DECIDED_BY)
    LIFECYCLE_RULES.check(said.get("rules") if isinstance(said, dict) else None)


def sealed_format(payload: Mapping[str, object]) -> str:
    """Return the format of the result that a ``result_sealed`` event records."""
    return str(payload.get("result_format"))


def sealed_moment(payload: Mapping[str, object]) -> datetime:
    """Return when the result that a ``result_sealed`` event records was finished."""
    return convert_stored(payload, ResultSealed).finished_at


def as_payload(value: msgspec.Struct) -> dict[str, object]:
    """Return a typed payload as the plain dict that a draft takes."""
    plain: dict[str, object] = msgspec.to_builtins(value)
    return plain
