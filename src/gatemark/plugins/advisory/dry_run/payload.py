"""Payloads: how they are sent, which inputs a rule decides, and the model's features."""

from __future__ import annotations

import base64
import math
import re
import zlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gatemark.core.errors import BadInputError
from gatemark.plugins.advisory.dry_run.envelope import find_requested_flags
from gatemark.plugins.advisory.fixtures.audio import (
    MAX_WAV_BYTES,
    SAMPLE_RATE_HZ,
    SoundSamples,
    parse_sound,
    read_wav,
    render_wav,
)
from gatemark.plugins.advisory.fixtures.fixture import DOCUMENT_LANE, ENVELOPE_LANE, VOICE_LANE
from gatemark.plugins.advisory.record import FallbackKind, Severity

TEXT_WIDTH: Final = 512
MAX_FIGURE: Final = 10**15
_BANDS: Final = 16
_FRAME: Final = 256
_HOP: Final = 128
_FLOOR: Final = 1e-8
_WORD: Final = re.compile(r"[A-Za-z]+|\d+|[^\sA-Za-z\d]")

FeatureRow = NDArray[np.float32]


def compute_text_features(payload: object) -> FeatureRow:
    """Return hashed words, word pairs and numbers of a JSON payload, normalised to length one.

    A word is hashed together with the key it is under. The hash is CRC-32, the same in every
    process and on every machine.
    """
    row = np.zeros(TEXT_WIDTH)
    for name, weight in _list_signals(payload):
        hashed = zlib.crc32(name.encode())
        row[hashed % TEXT_WIDTH] += weight if hashed & 0x8000_0000 else -weight
    length = float(np.sqrt(row @ row))
    return np.asarray(row / length if length else row, dtype=np.float32)


def _list_signals(payload: object) -> Iterator[tuple[str, float]]:
    yield "bias", 0.5
    for key, value in _walk_leaves(payload, ""):
        if isinstance(value, bool) or value is None:
            yield f"{key}={value}", 1.0
        elif isinstance(value, int | float):
            yield f"{key}#", math.log1p(min(abs(value), MAX_FIGURE)) / 3
            yield f"{key}={'zero' if value == 0 else 'some'}", 0.5
        else:
            words = _split_words(str(value))
            # A single word is a category, and says more than one word among many.
            weight = 2.0 if len(words) == 1 else 1.0
            for word in words:
                yield f"{key}:{word}", weight
            for left, right in pairwise(words):
                yield f"{key}:{left} {right}", 0.7
    yield from _measure_overlap(payload)


def _walk_leaves(value: object, key: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for name in sorted(value):
            yield from _walk_leaves(value[name], f"{key}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from _walk_leaves(item, key)
    else:
        yield key, value


def _split_words(text: str) -> list[str]:
    return [
        word if word.isupper() and len(word) > 1 else word.lower() for word in _WORD.findall(text)
    ]


def _measure_overlap(payload: object) -> Iterator[tuple[str, float]]:
    """Yield how far passages cover a question, and whether those give different numbers."""
    question = payload.get("question") if isinstance(payload, dict) else None
    passages = payload.get("passages") if isinstance(payload, dict) else None
    if not isinstance(question, str) or not isinstance(passages, list):
        return
    asked = {word for word in _split_words(question) if len(word) > 3}
    found = [set(_split_words(str(passage))) for passage in passages]
    shared = [len(asked & words) for words in found]
    best = max(shared, default=0)
    yield f"overlap:{min(best, 3)}", 3.0
    yield f"passages:{len(found)}", 1.0
    covering = [words for words, count in zip(found, shared, strict=True) if count == best > 0]
    figures = {word for words in covering for word in words if word.isdigit()}
    yield f"covering:{len(covering)}", 2.0
    yield f"figures:{min(len(figures), 3)}", 2.0


def compute_audio_features(samples: SoundSamples) -> FeatureRow:
    """Return energy by band, its variation, and how tonal, busy and voice-like the sound is."""
    padded = np.pad(samples, (0, max(0, _FRAME - samples.size)))
    frames = np.lib.stride_tricks.sliding_window_view(padded, _FRAME)[::_HOP] * np.hanning(_FRAME)
    power = np.abs(np.fft.rfft(frames, axis=1)) ** 2 + _FLOOR
    edges = np.geomspace(80, SAMPLE_RATE_HZ / 2, _BANDS + 1) * _FRAME / SAMPLE_RATE_HZ
    places = np.clip(np.searchsorted(edges, np.arange(power.shape[1])) - 1, 0, _BANDS - 1)
    bands = np.stack([power[:, places == band].sum(axis=1) + _FLOOR for band in range(_BANDS)], 1)
    logs = np.log(bands)
    flatness = np.exp(np.mean(np.log(power), axis=1)) / np.mean(power, axis=1)
    loudness = np.sqrt(np.mean(frames**2, axis=1))
    crossings = np.mean(np.abs(np.diff(np.signbit(padded))))
    row = [
        *logs.mean(axis=0),
        *logs.std(axis=0),
        flatness.mean(),
        flatness.std(),
        crossings,
        loudness.mean(),
        loudness.std() / (loudness.mean() + _FLOOR),
        np.log(loudness.max() + _FLOOR) - np.log(loudness.min() + _FLOOR),
    ]
    return np.asarray(row, dtype=np.float32)


OPERATIONS: Final = ("classify", "generate", "triage")
MAX_ENVELOPE_CHARS: Final = 4000
MAX_TOKENS: Final = 4096
_INNER_KEYS: Final = frozenset({"operation", "text", "max_tokens", "authority", "actions"})


class PayloadRuling(NamedTuple):
    """The decision of a rule about an input, made without any model."""

    label: str
    severity: Severity
    reason: str
    fallback: FallbackKind | None = None


def encode_payload(input_class: str, payload: object) -> object:
    """Return the payload to send: sounds as WAV in base64, everything else unchanged."""
    if input_class != VOICE_LANE:
        return payload
    wav = render_wav(parse_sound(payload))
    return {"wav_base64": base64.b64encode(wav).decode("ascii")}


def compute_row(input_class: str, payload: object) -> FeatureRow:
    """Return the model's features of a received payload; raise BadInputError if it is not valid."""
    if input_class != VOICE_LANE:
        return compute_text_features(payload)
    text = payload.get("wav_base64") if isinstance(payload, dict) else None
    if not isinstance(text, str) or len(text) > MAX_WAV_BYTES * 2:
        raise BadInputError("payload must hold wav_base64, a short WAV file in base64")
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise BadInputError("wav_base64 is not base64") from error
    return compute_audio_features(read_wav(data))


def settle_by_rule(input_class: str, payload: object) -> PayloadRuling | None:
    """Decide inputs that no model may see: private roots, broken envelopes, authority requests."""
    if input_class == DOCUMENT_LANE and isinstance(payload, dict):
        if payload.get("root_class") == "private":
            return PayloadRuling("skip_private_root", "low", "private_root", "private_root_blocked")
    elif input_class == ENVELOPE_LANE:
        if find_requested_flags(payload):
            return PayloadRuling("escalate", "high", "authority_requested")
        if not _is_whole(payload):
            return PayloadRuling("suppress", "low", "malformed_envelope")
    return None


def _is_whole(envelope: object) -> bool:
    if not isinstance(envelope, dict) or not envelope.keys() <= _INNER_KEYS:
        return False
    text, tokens = envelope.get("text"), envelope.get("max_tokens")
    return (
        envelope.get("operation") in OPERATIONS
        and isinstance(text, str)
        and 0 < len(text) <= MAX_ENVELOPE_CHARS
        and isinstance(tokens, int)
        and not isinstance(tokens, bool)
        and 0 < tokens <= MAX_TOKENS
    )
