"""Sounds from numbers: a fixture's parameters become a short WAV, and a WAV becomes samples."""

from __future__ import annotations

import io
import wave
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatemark.core.errors import BadInputError

SAMPLE_RATE_HZ: Final = 8000
MAX_SECONDS: Final = 2.0
MAX_WAV_BYTES: Final = int(MAX_SECONDS * SAMPLE_RATE_HZ) * 2 + 4096
_FULL_SCALE: Final = 32767.0
_HARMONICS: Final = 6

Samples = NDArray[np.float64]
Level = Annotated[float, msgspec.Meta(ge=0, le=1)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=MAX_SECONDS)]
Hertz = Annotated[float, msgspec.Meta(gt=0, le=SAMPLE_RATE_HZ / 2)]


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One layer of a sound. ``glide`` is how far the pitch moves, as a share of ``hz``."""

    shape: Literal["tone", "noise", "syllables"]
    level: Level
    hz: Hertz = 440.0
    glide: Annotated[float, msgspec.Meta(ge=-1, le=1)] = 0.0
    per_second: Annotated[float, msgspec.Meta(gt=0, le=20)] = 4.0


class Sound(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of a sound."""

    sample_rate_hz: Literal[8000]
    seconds: Seconds
    noise_seed: Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
    parts: Annotated[tuple[Part, ...], msgspec.Meta(min_length=1, max_length=8)]


def sound_of(payload: Any) -> Sound:
    """The typed parameters of a fixture's payload."""
    try:
        return msgspec.convert(payload, Sound)
    except msgspec.ValidationError as error:
        raise BadInputError(f"payload is not a sound: {error}") from error


def render_wav(sound: Sound) -> bytes:
    """A mono 16-bit WAV; the same parameters give the same bytes on the same machine."""
    count = max(1, round(sound.seconds * SAMPLE_RATE_HZ))
    time_s = np.arange(count) / SAMPLE_RATE_HZ
    mixed = np.zeros(count)
    for place, part in enumerate(sound.parts):
        mixed += part.level * _layer(part, time_s, sound.noise_seed + place)
    peak = float(np.max(np.abs(mixed)))
    data = np.rint(mixed / max(1.0, peak) * _FULL_SCALE).astype("<i2").tobytes()
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE_HZ)
        file.writeframes(data)
    return stream.getvalue()


def _layer(part: Part, time_s: Samples, noise_seed: int) -> Samples:
    if part.shape == "noise":
        # Raw words of the bit generator: the one stream that numpy promises never to change.
        words = np.random.PCG64(noise_seed).random_raw(time_s.size)
        return words / float(2**63) - 1.0
    if part.shape == "tone":
        return np.sin(2 * np.pi * part.hz * time_s)
    whole_s = time_s[-1] + 1 / SAMPLE_RATE_HZ
    pitch_hz = part.hz * (1 + part.glide * time_s / whole_s)
    phase = 2 * np.pi * np.cumsum(pitch_hz) / SAMPLE_RATE_HZ
    # A buzz with falling harmonics, opened and closed some times a second.
    buzz = sum(np.sin(k * phase) / k for k in range(1, _HARMONICS + 1)) / 2
    gate = np.clip(np.sin(np.pi * part.per_second * time_s) ** 2 * 1.5 - 0.25, 0, 1)
    return np.asarray(buzz * gate)


def read_wav(data: bytes) -> Samples:
    """The samples of a WAV in [-1, 1]; refuses anything but short mono 16-bit at 8 kHz."""
    if len(data) > MAX_WAV_BYTES:
        raise BadInputError(f"audio must have at most {MAX_WAV_BYTES} bytes, got {len(data)}")
    try:
        with wave.open(io.BytesIO(data), "rb") as file:
            shape = (file.getnchannels(), file.getsampwidth(), file.getframerate())
            if shape != (1, 2, SAMPLE_RATE_HZ):
                raise BadInputError(
                    "audio must be 1 channel of 16 bits at 8000 Hz, got "
                    f"{shape[0]} of {8 * shape[1]} at {shape[2]}"
                )
            frames = file.readframes(int(MAX_SECONDS * SAMPLE_RATE_HZ) + 1)
    except (wave.Error, EOFError) as error:
        raise BadInputError(f"audio is not a whole WAV file: {error}") from error
    samples = np.frombuffer(frames[: len(frames) // 2 * 2], dtype="<i2") / _FULL_SCALE
    if not 0 < samples.size <= MAX_SECONDS * SAMPLE_RATE_HZ:
        raise BadInputError(f"audio must last up to {MAX_SECONDS:g} s, got {samples.size} samples")
    return np.asarray(samples, dtype=np.float64)
