"""Letters that base64 does not have are refused like any other damage, never with a traceback."""

from __future__ import annotations

import base64
import json

import pytest

from gatemark.core.errors import BadInputError, IntegrityError
from gatemark.ledger.signing.dsse import IN_TOTO, read_envelope
from gatemark.ledger.signing.note import read_checkpoint, read_note, read_signer, read_verifier

GOOD = base64.b64encode(b"x" * 40).decode()
BAD = ["é" + GOOD[1:], GOOD[:-1] + "\x80", "日本語"]


@pytest.mark.parametrize("text", BAD)
def test_keys_notes_and_checkpoints(text: str) -> None:
    with pytest.raises(BadInputError, match="key"):
        read_verifier(f"name+00000000+{text}")
    with pytest.raises(BadInputError, match="key"):
        read_signer(f"PRIVATE+KEY+name+00000000+{text}")
    with pytest.raises(BadInputError):
        read_note(f"words\n\n— name {text}\n")
    with pytest.raises(BadInputError, match="root is not base64"):
        read_checkpoint(f"origin\n7\n{text}\n\n— name {GOOD}\n")


@pytest.mark.parametrize(("payload", "signature"), [(BAD[0], GOOD), (GOOD, BAD[0])])
def test_envelopes(payload: str, signature: str) -> None:
    signatures = [{"keyid": "key", "sig": signature}]
    form = {"payload": payload, "payloadType": IN_TOTO, "signatures": signatures}
    with pytest.raises(IntegrityError, match="damaged envelope"):
        read_envelope(json.dumps(form).encode(), "envelope")
