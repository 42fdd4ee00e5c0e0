"""What a service sees of an input: how a payload travels, which inputs a rule settles, the row."""

from __future__ import annotations

import base64
from typing import Any, Final, NamedTuple

from gatemark.core.errors import BadInputError
from gatemark.exams.advisory.decision import FallbackKind, Severity
from gatemark.exams.advisory.dry_run.envelope import asks_authority
from gatemark.exams.advisory.dry_run.features import Row, audio_features, text_features
from gatemark.exams.advisory.fixtures.audio import MAX_WAV_BYTES, read_wav, render_wav, sound_of
from gatemark.exams.advisory.fixtures.lanes import DOCUMENTS, ENVELOPES, VOICE

OPERATIONS: Final = ("classify", "generate", "triage")
MAX_TEXT_CHARS: Final = 4000
MAX_TOKENS: Final = 4096
_INNER_KEYS: Final = frozenset({"operation", "text", "max_tokens", "authority", "actions"})


class PayloadRuling(NamedTuple):
    """What a rule says about an input, before and instead of any model."""

    label: str
    severity: Severity
    reason: str
    fallback: FallbackKind | None = None


def wire_payload(input_class: str, payload: Any) -> Any:
    """The payload as it travels to a service: sounds as WAV in base64, everything else as it is."""
    if input_class != VOICE:
        return payload
    wav = render_wav(sound_of(payload))
    return {"wav_base64": base64.b64encode(wav).decode("ascii")}


def row_of(input_class: str, payload: Any) -> Row:
    """The model's row for a payload that travelled; BadInputError when it is not one."""
    if input_class != VOICE:
        return text_features(payload)
    text = payload.get("wav_base64") if isinstance(payload, dict) else None
    if not isinstance(text, str) or len(text) > MAX_WAV_BYTES * 2:
        raise BadInputError("payload must hold wav_base64, a short WAV file in base64")
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise BadInputError("wav_base64 is not base64") from error
    return audio_features(read_wav(data))


def settled_by_rule(input_class: str, payload: Any) -> PayloadRuling | None:
    """Inputs that no model gets to see: private roots, broken envelopes, grabs for authority."""
    if input_class == DOCUMENTS and isinstance(payload, dict):
        if payload.get("root_class") == "private":
            return PayloadRuling("skip_private_root", "low", "private_root", "private_root_blocked")
    elif input_class == ENVELOPES:
        if asks_authority(payload):
            return PayloadRuling("escalate", "high", "authority_requested")
        if not _is_whole(payload):
            return PayloadRuling("suppress", "low", "malformed_envelope")
    return None


def _is_whole(envelope: Any) -> bool:
    if not isinstance(envelope, dict) or not envelope.keys() <= _INNER_KEYS:
        return False
    text, tokens = envelope.get("text"), envelope.get("max_tokens")
    return (
        envelope.get("operation") in OPERATIONS
        and isinstance(text, str)
        and 0 < len(text) <= MAX_TEXT_CHARS
        and isinstance(tokens, int)
        and not isinstance(tokens, bool)
        and 0 < tokens <= MAX_TOKENS
    )
