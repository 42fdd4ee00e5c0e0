"""Short sounds, described by numbers and rendered on demand: never anybody's voice."""

from __future__ import annotations

from typing import Any

from advisory_cases.case import Draw, FixtureCase

SAMPLE_RATE_HZ = 8000


def _sound(draw: Draw, *parts: dict[str, Any]) -> dict[str, Any]:
    return {
        "sample_rate_hz": SAMPLE_RATE_HZ,
        "seconds": draw.share(0.4, 0.7),
        "noise_seed": draw.number(1, 999_999),
        "parts": list(parts),
    }


def _tone(draw: Draw, level: float) -> dict[str, Any]:
    return {"shape": "tone", "hz": draw.number(220, 1400), "level": level}


def _noise(level: float) -> dict[str, Any]:
    return {"shape": "noise", "level": level}


def _syllables(draw: Draw, level: float) -> dict[str, Any]:
    return {
        "shape": "syllables",
        "hz": draw.number(110, 260),
        "glide": draw.share(-0.3, 0.3),
        "per_second": draw.share(3.0, 7.0),
        "level": level,
    }


def _generated(draw: Draw) -> dict[str, Any]:
    tones = [_tone(draw, draw.share(0.2, 0.5)) for _ in range(draw.number(1, 3))]
    return _sound(draw, *tones, _noise(draw.share(0.0, 0.02)))


def _background(draw: Draw) -> dict[str, Any]:
    hum = {"shape": "tone", "hz": draw.pick((50, 60)), "level": draw.share(0.0, 0.2)}
    return _sound(draw, _noise(draw.share(0.1, 0.5)), hum)


def _command_like(draw: Draw) -> dict[str, Any]:
    voice = _syllables(draw, draw.share(0.4, 0.7))
    return _sound(draw, voice, _noise(draw.share(0.0, 0.05)))


def _unclear(draw: Draw) -> dict[str, Any]:
    voice = _syllables(draw, draw.share(0.12, 0.2))
    return _sound(draw, voice, _noise(draw.share(0.18, 0.28)))


CASES = (
    FixtureCase("bounded_generated_audio", "normal", "no_action", "none", 15, _generated),
    FixtureCase("background_noise", "false_alarm", "suppress", "info", 13, _background),
    FixtureCase("command_like_utterance", "action_needed", "escalate", "high", 15, _command_like),
    FixtureCase("low_confidence_transcript", "low_confidence", "needs_human", "low", 5, _unclear),
)
