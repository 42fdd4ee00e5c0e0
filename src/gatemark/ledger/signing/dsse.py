"""Signed envelopes (DSSE) around statements."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Annotated, Final

import msgspec

from gatemark.core.errors import BadInputError, IntegrityError
from gatemark.ledger.signing.note import SigningKey, VerifierKey

IN_TOTO: Final = "application/vnd.in-toto+json"


class EnvelopeSignature(msgspec.Struct, frozen=True):
    """One signature; ``keyid`` is a hint where to look for the key, not more."""

    keyid: str
    sig: str


class Envelope(msgspec.Struct, frozen=True):
    """Bytes of a stated type, with signatures over both."""

    payload: str
    payloadType: str  # noqa: N815 - the field's name in the standard
    signatures: Annotated[tuple[EnvelopeSignature, ...], msgspec.Meta(max_length=64)]


def encoded_for_signing(payload_type: str, payload: bytes) -> bytes:
    """The bytes that are signed: type and payload with their lengths, so that none can shift."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign_envelope(payload: bytes, *keys: SigningKey, payload_type: str = IN_TOTO) -> Envelope:
    """An envelope with a signature by each key."""
    data = encoded_for_signing(payload_type, payload)
    return Envelope(
        payload=base64.b64encode(payload).decode(),
        payloadType=payload_type,
        signatures=tuple(
            EnvelopeSignature(key.verifier.label, base64.b64encode(key.sign(data)).decode())
            for key in keys
        ),
    )


def read_envelope(data: bytes, place: str) -> Envelope:
    """An envelope from its JSON."""
    try:
        return msgspec.json.decode(data, type=Envelope)
    except msgspec.MsgspecError as error:
        raise BadInputError(f"{place}: is no signed envelope: {error}") from error


def open_envelope(envelope: Envelope, keys: Iterable[VerifierKey], place: str) -> bytes:
    """The payload of an envelope that at least one of the keys signed."""
    try:
        payload = base64.b64decode(envelope.payload, validate=True)
        signatures = [base64.b64decode(one.sig, validate=True) for one in envelope.signatures]
    except ValueError as error:
        raise IntegrityError(f"{place}: is not base64 throughout") from error
    if envelope.payloadType != IN_TOTO:
        raise IntegrityError(f"{place}: holds {envelope.payloadType!r}, expected {IN_TOTO}")
    data = encoded_for_signing(envelope.payloadType, payload)
    if not any(key.accepts(data, signature) for key in keys for signature in signatures):
        raise IntegrityError(f"{place}: is not signed by a key that may")
    return payload
