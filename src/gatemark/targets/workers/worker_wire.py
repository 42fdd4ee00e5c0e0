"""The messages between the judge and a worker process: one JSON value per line, validated.

The judge writes a line of settings, then one ``Ask`` per call. The worker writes one ``Ready`` or
``Failed``, then one ``Answered`` per call, in any order.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from gatemark.targets.port import Call, Reply


class Ask(msgspec.Struct, frozen=True, array_like=True):
    """A call, and the number of its answer."""

    number: int
    call: Call


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The function is loaded: what it reads besides the input, and the packages it loaded."""

    extras: tuple[str, ...]
    packages: dict[str, str]


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The function cannot be loaded, and whether the target or the judge is at fault."""

    kind: Literal["usage", "bad_input"]
    message: str


class Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a call has no reply. A target's own code cannot claim any other kind.

    Claiming ``unavailable`` does not help it: an item that could not be asked makes the verdict
    inconclusive.
    """

    kind: Literal["crash", "bad_reply", "unavailable"]
    message: str
    retryable: bool = False


class Answered(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """How one call ended."""

    number: int
    reply: Reply | None
    failure: Failure | None = None


encode = msgspec.json.Encoder().encode
decode_ask = msgspec.json.Decoder(Ask).decode
_hello: msgspec.json.Decoder[Ready | Failed] = msgspec.json.Decoder(Ready | Failed)
decode_hello = _hello.decode
decode_answered = msgspec.json.Decoder(Answered).decode
