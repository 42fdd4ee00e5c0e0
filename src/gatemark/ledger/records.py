"""One line of an exported ledger: ``gatemark.event/1``."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from gatemark.core.record import BadExample, Form, Problem, RecordSchema
from gatemark.core.text import is_one_line

NAME: Final = "gatemark.event/1"

Digest = Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}$")]
Name = Annotated[str, Meta(pattern=r"\S", max_length=512)]
Kind = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Moment = Annotated[
    str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{6})?Z$")
]


class EventLine(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """An event of the ledger. If payload and salt are missing, the payload was erased."""

    schema: Literal["gatemark.event/1"]
    seq: Annotated[int, Meta(ge=1, le=2**53 - 1)]
    prev: Digest
    kind: Kind
    at: Moment
    actor: Name
    subject: Name | None
    payload_digest: Digest
    digest: Digest
    payload: dict[str, Any] | UnsetType = UNSET
    salt: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$")] | UnsetType = UNSET


def payload_has_its_salt(event: EventLine) -> list[Problem]:
    """Require payload and salt together, since they are erased together."""
    if (event.payload is UNSET) == (event.salt is UNSET):
        return []
    return [Problem("$", "payload and salt come together, or neither when they were erased")]


def names_are_one_line(event: EventLine) -> list[Problem]:
    """Refuse control characters in actor and subject, so that each fits a table row."""
    return [
        Problem(f"$.{field}", f"{text!r} has a control character")
        for field, text in (("actor", event.actor), ("subject", event.subject))
        if text is not None and not is_one_line(text)
    ]


_EVENT: Final[dict[str, object]] = {
    "schema": NAME,
    "seq": 1,
    "prev": "sha256:" + "0" * 64,
    "kind": "drift_signal",
    "at": "2026-05-04T12:00:00Z",
    "actor": "system",
    "subject": "support-triage",
    "payload_digest": "sha256:" + "1" * 64,
    "digest": "sha256:" + "2" * 64,
    "payload": {"level": "WARN"},
    "salt": "00" * 16,
}
_ERASED: Final = {k: v for k, v in _EVENT.items() if k not in ("payload", "salt")}

SCHEMA: Final = RecordSchema(
    name=NAME,
    summary="One event of the ledger, chained to the one before by its digest.",
    forms=(
        Form(
            name="event",
            type=EventLine,
            marks=frozenset({"seq", "prev", "payload_digest"}),
            identity="digest",
            good=(_EVENT, _ERASED, _EVENT | {"subject": None, "at": "2026-05-04T12:00:00.250000Z"}),
            bad=(
                BadExample("a number that starts at 0", _EVENT | {"seq": 0}, "$.seq"),
                BadExample("no time zone", _EVENT | {"at": "2026-05-04T12:00:00"}, "$.at"),
                BadExample("an offset", _EVENT | {"at": "2026-05-04T12:00:00+02:00"}, "$.at"),
                BadExample("a short digest", _EVENT | {"prev": "sha256:00"}, "$.prev"),
                BadExample("a kind of two words", _EVENT | {"kind": "Drift signal"}, "$.kind"),
                BadExample("nobody acted", _EVENT | {"actor": " "}, "$.actor"),
                BadExample("an actor on two lines", _EVENT | {"actor": "a\nb"}, "$.actor"),
                BadExample("a payload without salt", _ERASED | {"payload": {}}, "$"),
                BadExample("a list as payload", _EVENT | {"payload": []}, "$.payload"),
                BadExample("a misspelled field", _EVENT | {"author": "x"}, "$"),
                BadExample("another schema", _EVENT | {"schema": "gatemark.pair/1"}, "$.schema"),
            ),
            rules=(payload_has_its_salt, names_are_one_line),
        ),
    ),
)
