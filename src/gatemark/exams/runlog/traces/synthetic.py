"""Synthetic traces of several agents: seeded, of several domains, delta by delta.

Each case draws from a generator of its own, seeded by the campaign's seed and the case's name, so
that a case is the same whoever makes it and in whatever order.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.exams.runlog.records.names import mas_run_id
from gatemark.exams.runlog.records.trace import Decoding, TraceRecord
from gatemark.exams.runlog.traces.phrases import DOMAINS, Domain
from gatemark.exams.runlog.traces.script import Origin, ScriptTurn, trace_records

GENERATOR: Final = "gatemark.synthetic/1"
MODEL: Final = "gatemark-synthetic-1"
FORK: Final = "urn:gatemark:synthetic-traces"
COMMIT: Final = hashlib.sha256(GENERATOR.encode()).hexdigest()[:40]
"""Stands for the version of this generator where a commit is asked for."""
BASE_MS: Final = 1_700_000_000_000
CASE_GAP_MS: Final = 3_600_000
STUB_CASES: Final = 10
STUB_AGENTS: Final = ("supervisor", "doctor0", "doctor1", "supervisor")
_SLOT: Final = re.compile(r"\{(\w+)\}")
_PIECE: Final = re.compile(r"\s?[A-Za-z]{1,6}|\s?[^A-Za-z\s]+|\s")


class SyntheticSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How many traces, of which domains, and how much is said in them.

    ``piece_ms`` is the time between two deltas; about one in ``pause_every`` is followed by a
    pause. Pauses of a second and more reach the token gate's silence timer.
    """

    cases: Annotated[int, Meta(ge=1, le=1_000_000)] = 12
    seed: int = 7
    domains: tuple[str, ...] = tuple(DOMAINS)
    rounds: tuple[int, int] = (3, 7)
    sentences: tuple[int, int] = (16, 40)
    piece_ms: tuple[int, int] = (8, 30)
    pause_every: Annotated[int, Meta(ge=1)] = 200
    pause_ms: tuple[int, int] = (200, 900)

    def __post_init__(self) -> None:
        for name in ("rounds", "sentences", "piece_ms", "pause_ms"):
            low, high = getattr(self, name)
            if not 1 <= low <= high:
                raise InvalidValueError(f"{name} must be [low, high] from 1 up, got {[low, high]}")
        unknown = sorted(set(self.domains) - set(DOMAINS))
        if unknown or not self.domains:
            known = ", ".join(DOMAINS)
            raise InvalidValueError(f"domains must be some of {known}, got {unknown or 'none'}")


def synthetic_settings(raw: object, place: str) -> SyntheticSettings:
    """Settings from plain values; every complaint names the place and the key."""
    try:
        return msgspec.convert(raw, SyntheticSettings)
    except msgspec.ValidationError as error:
        raise BadInputError(f"{place}: {error}") from error


def case_ids(settings: SyntheticSettings) -> list[str]:
    """The names of all cases, in order; the domains take turns."""
    return [
        f"case-{settings.domains[index % len(settings.domains)]}-{index:04d}"
        for index in range(settings.cases)
    ]


def stub_case_ids() -> list[str]:
    """The names of cases that have no data at all."""
    return [f"case-stub-{index:03d}" for index in range(STUB_CASES)]


def decoding_of(settings: SyntheticSettings) -> dict[str, float | int | None]:
    """How a generator without a model was sampled."""
    return {"temperature": 0.0, "top_p": None, "max_tokens": None, "seed": settings.seed}


def origin_of(settings: SyntheticSettings, case_list_hash: str, exaid_commit: str) -> Origin:
    """Where the traces of a campaign come from."""
    decoding = decoding_of(settings)
    return Origin(
        mas_run_id=mas_run_id(
            mac_commit=COMMIT, model=MODEL, decoding=decoding, case_list_hash=case_list_hash
        ),
        mac_commit=COMMIT,
        exaid_commit=exaid_commit,
        model=MODEL,
        decoding=msgspec.convert(decoding, Decoding),
    )


def synthetic_trace(case_id: str, settings: SyntheticSettings, origin: Origin) -> list[TraceRecord]:
    """The trace of one case."""
    name, _, number = case_id.removeprefix("case-").partition("-")
    if name not in settings.domains or not number.isdigit():
        raise BadInputError(f"{case_id} is no case of these settings")
    draw = random.Random(f"{GENERATOR}/{settings.seed}/{case_id}")  # noqa: S311 - invents text
    base_ms = BASE_MS + int(number) * CASE_GAP_MS
    talk = _Talk(DOMAINS[name], settings, draw, base_ms)
    return trace_records(case_id, list(talk.turns()), origin)


def stub_trace(case_id: str, origin: Origin) -> list[TraceRecord]:
    """A trace that stands in for one that could not be made, and says so."""
    turns = []
    for place, agent_id in enumerate(STUB_AGENTS):
        start = BASE_MS + place * 1000
        words = f"Stub turn {place + 1} of {agent_id} for {case_id}.".split()
        pieces = tuple(
            (start + 50 + 30 * number, word if number == 0 else f" {word}")
            for number, word in enumerate(words)
        )
        turns.append(ScriptTurn(agent_id, start, pieces, start + 50 + 30 * len(words) + 100))
    return trace_records(case_id, turns, origin, stub=True)


class _Talk:
    """One case's talk: the chair names an agent, the agent speaks, and in the end it is over."""

    def __init__(
        self, domain: Domain, settings: SyntheticSettings, draw: random.Random, start_ms: int
    ) -> None:
        self._domain = domain
        self._settings = settings
        self._draw = draw
        self._now_ms = start_ms

    def turns(self) -> Iterator[ScriptTurn]:
        domain, draw = self._domain, self._draw
        for _ in range(draw.randint(*self._settings.rounds)):
            agent_id = draw.choice(domain.agents)
            yield self._turn(domain.chair, [agent_id.capitalize()])
            yield self._turn(agent_id, self._pieces())
            if domain.parallel and draw.random() < 0.5:
                # Somebody else speaks up before the first one is done.
                done_ms = self._now_ms
                self._now_ms -= draw.randint(500, 3000)
                others = [other for other in domain.agents if other != agent_id]
                yield self._turn(draw.choice(others), self._pieces())
                self._now_ms = max(done_ms, self._now_ms)
        yield self._turn(domain.chair, ["TERMI", "NATE"])

    def _turn(self, agent_id: str, pieces: Sequence[str]) -> ScriptTurn:
        draw, settings = self._draw, self._settings
        start = self._now_ms
        now = start + draw.randint(20, 200)
        timed = []
        for piece in pieces:
            timed.append((now, piece))
            now += draw.randint(*settings.piece_ms)
            if draw.randrange(settings.pause_every) == 0:
                now += draw.randint(*settings.pause_ms)
        self._now_ms = now + draw.randint(200, 900)
        return ScriptTurn(agent_id, start, tuple(timed), now)

    def _pieces(self) -> list[str]:
        count = self._draw.randint(*self._settings.sentences)
        sentences = [self._sentence() for _ in range(count)]
        return _PIECE.findall(" ".join(sentences))

    def _sentence(self) -> str:
        domain, draw = self._domain, self._draw
        template = draw.choice(domain.sentences)
        return _SLOT.sub(lambda slot: draw.choice(domain.slots[slot.group(1)]), template)
