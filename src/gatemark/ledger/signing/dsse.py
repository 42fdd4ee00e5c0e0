"""Signed envelopes (DSSE) around statements, in the format of securesystemslib.

As the standard says, ``keyid`` is only a hint: every key is tried on every signature. The library
would try only the key named by the hint, so signatures are verified here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final, TypedDict

import msgspec

from gatemark.core.errors import BadInputError, IntegrityError
from gatemark.ledger.signing.note import MAX_SIGNATURES, Signer, VerifierKey

if TYPE_CHECKING:
    from securesystemslib.dsse import Envelope

# Imported when used: the library takes a tenth of a second to load, and only exports need it.
IN_TOTO: Final = "application/vnd.in-toto+json"


class _Signature(TypedDict):
    keyid: str
    sig: str


class _Form(TypedDict):
    payload: str
    payloadType: str
    signatures: Annotated[list[_Signature], msgspec.Meta(max_length=MAX_SIGNATURES)]


def sign_envelope(payload: bytes, *keys: Signer, payload_type: str = IN_TOTO) -> Envelope:
    """Return an envelope with a signature by each key."""
    from securesystemslib.dsse import Envelope  # noqa: PLC0415
    from securesystemslib.signer import (  # type: ignore[attr-defined]  # noqa: PLC0415
        Signature,
    )

    envelope = Envelope(payload, payload_type, {})
    for key in keys:
        label = key.verifier.label
        envelope.signatures[label] = Signature(label, key.sign(envelope.pae()).hex())
    return envelope


def envelope_bytes(envelope: Envelope) -> bytes:
    """Return an envelope as one line of JSON."""
    return msgspec.json.encode(envelope.to_dict()) + b"\n"


def read_envelope(data: bytes, place: str) -> Envelope:
    """Return the envelope in JSON bytes; its signatures are not verified."""
    from securesystemslib.dsse import Envelope  # noqa: PLC0415

    try:
        form = msgspec.json.decode(data, type=_Form)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(f"{place}: not a signed envelope: {error}") from error
    try:
        return Envelope.from_dict(dict(form))
    except ValueError as error:
        raise IntegrityError(f"{place}: damaged envelope: {error}") from error


def open_envelope(envelope: Envelope, keys: Iterable[VerifierKey], place: str) -> bytes:
    """Return the payload of an envelope that at least one of the keys signed."""
    if envelope.payload_type != IN_TOTO:
        raise IntegrityError(f"{place}: holds {envelope.payload_type!r}, expected {IN_TOTO}")
    data = envelope.pae()
    signatures = [bytes.fromhex(one.signature) for one in envelope.signatures.values()]
    if not any(key.accepts(data, signature) for key in keys for signature in signatures):
        raise IntegrityError(f"{place}: not signed by a key of this ledger")
    return envelope.payload
