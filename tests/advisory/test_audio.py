from __future__ import annotations

import io
import wave
from typing import Any

import numpy as np
import pytest

from gatemark.advisory.audio import MAX_WAV_BYTES, read_wav, render_wav, sound_of
from gatemark.advisory.fixtures import builtin_fixtures
from gatemark.core.errors import BadInputError

TONE = {
    "sample_rate_hz": 8000,
    "seconds": 0.5,
    "noise_seed": 1,
    "parts": [{"shape": "tone", "hz": 1000, "level": 0.5}],
}


def wav(
    *, channels: int = 1, width: int = 2, rate: int = 8000, frames: bytes = b"\0" * 800
) -> bytes:
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(frames)
    return stream.getvalue()


def test_a_tone_has_its_pitch_and_its_length() -> None:
    samples = read_wav(render_wav(sound_of(TONE)))
    assert samples.size == 4000
    strongest = np.abs(np.fft.rfft(samples)).argmax() * 8000 / samples.size
    assert strongest == 1000
    assert float(np.abs(samples).max()) == pytest.approx(0.5, abs=1e-3)


def test_rendering_twice_gives_the_same_bytes_and_another_seed_others() -> None:
    noise = {**TONE, "parts": [{"shape": "noise", "level": 0.5}]}
    first, again = render_wav(sound_of(noise)), render_wav(sound_of(noise))
    assert first == again
    assert first != render_wav(sound_of({**noise, "noise_seed": 2}))


def test_loud_layers_are_scaled_and_never_clipped() -> None:
    loud = {**TONE, "parts": [{"shape": "tone", "hz": 200, "level": 1.0}] * 4}
    samples = read_wav(render_wav(sound_of(loud)))
    assert float(np.abs(samples).max()) == pytest.approx(1.0, abs=1e-3)
    assert np.mean(np.abs(samples) > 0.999) < 0.1


def test_syllables_are_gated_some_times_a_second() -> None:
    part = {"shape": "syllables", "hz": 150, "per_second": 4.0, "level": 0.8}
    samples = read_wav(render_wav(sound_of({**TONE, "seconds": 1.0, "parts": [part]})))
    loudness = np.sqrt(np.mean(samples.reshape(-1, 80) ** 2, axis=1))
    openings = np.count_nonzero(np.diff((loudness > 0.01).astype(int)) == 1)
    assert openings == 4


def test_every_voice_fixture_renders_to_a_short_file() -> None:
    voices = [f for f in builtin_fixtures().fixtures if f.input_class == "voice_audio"]
    assert voices
    assert all(1000 < len(render_wav(sound_of(f.payload))) < MAX_WAV_BYTES for f in voices[::8])


@pytest.mark.parametrize(
    "change",
    [{"seconds": 9}, {"seconds": 0}, {"parts": []}, {"sample_rate_hz": 44100}, {"words": "hello"}],
)
def test_parameters_out_of_bounds_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(BadInputError, match="payload is not a sound"):
        sound_of({**TONE, **change})


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "not a whole WAV"),
        (b"RIFF....WAVEnope", "not a whole WAV"),
        (wav()[:30], "not a whole WAV"),
        (wav(channels=2), "must be 1 channel"),
        (wav(rate=44100), "at 44100"),
        (wav(width=1), "of 8 at"),
        (wav(frames=b""), "got 0 samples"),
        (wav(frames=b"\0\0" * 16001), "got 16001 samples"),
        (b"x" * (MAX_WAV_BYTES + 1), "at most"),
    ],
)
def test_anything_but_a_short_plain_wav_is_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(BadInputError, match=complaint):
        read_wav(data)
