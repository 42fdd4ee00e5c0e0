"""A case of the built-in fixtures, and the choices that its examples are made of."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from gatemark.core.canonical import digest_bytes
from gatemark.exams.advisory.decision import FallbackKind, Severity
from gatemark.exams.advisory.fixtures.fixture import CaseKind, Fixture, Half, HalfManifest

T = TypeVar("T")


class Draw:
    """Choices for one fixture, from a hash of its name: a new fixture changes no old one.

    Only ``random.Random.random`` is used, whose numbers Python promises to keep.
    """

    def __init__(self, name: str, half: Half) -> None:
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
        self._random = random.Random(seed)  # noqa: S311 - invented data, not a secret
        self._half = half

    def pick(self, pool: Sequence[T]) -> T:
        """One of a pool, whichever half it is for."""
        return pool[int(self._random.random() * len(pool))]

    def phrase(self, pool: Sequence[T]) -> T:
        """One of a pool's wordings.

        Each half leaves out another third, so that a model meets wordings in its examination that
        it was never shown.
        """
        left_out = 2 if self._half == "training" else 0
        return self.pick([text for i, text in enumerate(pool) if i % 3 != left_out])

    def number(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def share(self, low: float, high: float) -> float:
        """A number between two bounds, to three decimals."""
        return round(low + self._random.random() * (high - low), 3)

    def several(self, pool: Sequence[T], count: int) -> list[T]:
        """Different ones of a pool."""
        left = list(pool)
        return [left.pop(int(self._random.random() * len(left))) for _ in range(count)]


class FixtureCase(msgspec.Struct, frozen=True):
    """One situation: examples of it, and the label and severity that people expect."""

    name: str
    kind: CaseKind
    label: str
    severity: Severity
    evaluation_count: int
    build: Callable[[Draw], Any]
    expected_fallback: FallbackKind | None = None

    def count(self, half: Half) -> int:
        """How many fixtures of a half show this case."""
        return self.evaluation_count if half == "evaluation" else 2 * self.evaluation_count


def encode_fixtures(fixtures: Sequence[Fixture]) -> bytes:
    """The file of a half: one line per fixture."""
    return b"".join(msgspec.json.encode(fixture, order="sorted") + b"\n" for fixture in fixtures)


def pin_half(file: str, fixtures: Sequence[Fixture]) -> HalfManifest:
    """The manifest entry of a half."""
    return HalfManifest(
        file=file,
        digest=digest_bytes(encode_fixtures(fixtures)),
        fixtures={fixture.fixture_id: fixture.pin for fixture in fixtures},
    )
