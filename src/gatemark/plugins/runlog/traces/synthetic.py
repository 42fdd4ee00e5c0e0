"""Synthetic traces of several agents: seeded, of several domains, delta by delta.

Each case has its own random generator, seeded by the campaign's seed and the case's name, so a case
is the same whoever makes it and in whatever order.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.plugins.runlog.records.names import name_mas_run
from gatemark.plugins.runlog.records.trace import Decoding, TraceRecord
from gatemark.plugins.runlog.traces.dataset import ScriptTurn, TraceOrigin, build_trace_records


class Domain(Struct, frozen=True):
    """A kind of team: who takes part, who calls on whom, and what they say.

    A sentence may contain ``{slots}``; each is filled with one of the slot's fillers. ``parallel``
    teams sometimes talk at the same time.
    """

    name: str
    agents: tuple[str, ...]
    chair: str
    sentences: tuple[str, ...]
    slots: Mapping[str, tuple[str, ...]]
    parallel: bool = False


def _split_phrases(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


CLINICAL: Final = Domain(
    name="clinical",
    agents=("doctor0", "doctor1", "doctor2"),
    chair="supervisor",
    sentences=(
        "The patient presents with {sign} and {sign}, first noticed {time} ago.",
        "Examination shows {sign}, while {organ} function is normal.",
        "{test} reveals {value} {marker}, which is abnormal for this age.",
        "Because of the {sign} I consider {disease} the most likely cause.",
        "However, {disease} could also explain the {sign} and the {marker}.",
        "It remains uncertain whether the {sign} is related to the {drug}.",
        "I recommend {test} next, and to start {drug} if it is positive.",
        "There is a risk of {sign} with {drug}, so the dose should be reduced.",
        "I agree that {disease} is possible, but the family history is negative.",
        "Differential diagnosis: {disease}, {disease} or, less likely, {disease}.",
        "We should stop {drug}; the {sign} may be an adverse effect.",
        "Final decision: treat as {disease} and repeat {test} in {time}.",
    ),
    slots={
        "sign": _split_phrases(
            "fever, seizure, ataxia, hypotonia, dysarthria, hepatomegaly, nystagmus, "
            "muscle weakness, failure to thrive, skin rash, arrhythmia, anemia, "
            "hearing impairment, splenomegaly, peripheral neuropathy, dystonia"
        ),
        "organ": _split_phrases("renal, hepatic, cardiac, pulmonary, thyroid"),
        "test": _split_phrases(
            "magnetic resonance imaging, a lumbar puncture, exome sequencing, "
            "an electroencephalogram, a muscle biopsy, echocardiography"
        ),
        "value": _split_phrases("elevated, markedly elevated, reduced, slightly reduced"),
        "marker": _split_phrases(
            "creatine kinase, serum lactate, alpha-fetoprotein, ferritin, plasma ammonia, "
            "ceruloplasmin"
        ),
        "disease": _split_phrases(
            "Friedreich ataxia, Wilson disease, Leigh syndrome, Gaucher disease, "
            "myotonic dystrophy, Fabry disease, Niemann-Pick disease, galactosemia"
        ),
        "drug": _split_phrases("valproate, penicillamine, levetiracetam, prednisone, miglustat"),
        "time": _split_phrases("two weeks, three months, a year, four days"),
    },
)
INCIDENT: Final = Domain(
    name="incident",
    agents=("storage", "network", "database"),
    chair="commander",
    parallel=True,
    sentences=(
        "The {service} shows {value} latency since {time}, and {service} reports errors.",
        "I found {count} failed requests on {host}; the {part} is saturated.",
        "The spike is likely caused by the {change} that went out {time} ago.",
        "It is unclear whether {service} depends on {host} at all.",
        "I suggest to roll back the {change} first and restart {service} afterwards.",
        "Rollback of the {change} is a risk: the {part} may not come back cleanly.",
        "However, {host} was already slow before the {change}.",
        "Logs reveal that the {part} on {host} ran full {time} ago.",
        "I agree, we should stop deployments until {service} is stable.",
        "Confirmed: after the restart {service} is back to normal.",
        "Root cause pending; possibly the {part}, possibly the {change}.",
        "Next, schedule a patch for {host} and hold the {change}.",
    ),
    slots={
        "service": _split_phrases("checkout, search, login, billing, the gateway, the queue"),
        "host": _split_phrases("node-3, node-7, the primary, the replica, edge-2"),
        "part": _split_phrases(
            "disk cache, connection pool, write-ahead log, index, message broker"
        ),
        "change": _split_phrases("schema change, configuration push, certificate renewal, release"),
        "value": _split_phrases("high, increased, unusually high"),
        "count": _split_phrases("forty, several hundred, a dozen, two thousand"),
        "time": _split_phrases("ten minutes, half an hour, an hour, noon"),
    },
)
WORKSHOP: Final = Domain(
    name="workshop",
    agents=("mechanic", "electrician", "planner"),
    chair="foreman",
    sentences=(
        "The {part} of unit {unit} shows {wear} after {time} of service.",
        "I measured {value} {quantity} at the {part}, above the limit.",
        "The {wear} is due to {cause}, as on unit {unit} last year.",
        "It could also be {cause}; the record is unclear.",
        "I propose to replace the {part} and to inspect the {part} as well.",
        "Caution: the {part} is under load, do not loosen it before the {step}.",
        "However, a new {part} cannot arrive before {time} from now.",
        "We should begin with the {step}, then continue with the {step}.",
        "I disagree, the {quantity} is within limits once the {part} is warm.",
        "Decision: unit {unit} stays in, and the {step} is scheduled.",
        "The {step} revealed no further {wear}.",
        "Confidence in {cause} as the cause is low until the {step} is done.",
    ),
    slots={
        "part": _split_phrases("bearing, gear box, drive belt, relay, pump seal, rotor"),
        "unit": _split_phrases("four, seven, eleven, twenty"),
        "wear": _split_phrases("pitting, hairline cracking, corrosion, overheating, play"),
        "value": _split_phrases("elevated, excessive, slightly increased"),
        "quantity": _split_phrases("vibration, temperature, current, oil pressure"),
        "cause": _split_phrases("misalignment, poor lubrication, a loose mount, voltage spikes"),
        "step": _split_phrases("visual inspection, oil change, insulation test, alignment"),
        "time": _split_phrases("two thousand hours, six weeks, one season, three days"),
    },
)
DOMAINS: Final[Mapping[str, Domain]] = {
    domain.name: domain for domain in (CLINICAL, INCIDENT, WORKSHOP)
}


GENERATOR: Final = "gatemark.synthetic/1"
MODEL: Final = "gatemark-synthetic-1"
FORK: Final = "urn:gatemark:synthetic-traces"
COMMIT: Final = hashlib.sha256(GENERATOR.encode()).hexdigest()[:40]
"""The version of this generator, in place of a commit."""
BASE_MS: Final = 1_700_000_000_000
CASE_GAP_MS: Final = 3_600_000
STUB_CASES: Final = 10
STUB_AGENTS: Final = ("supervisor", "doctor0", "doctor1", "supervisor")
_SLOT: Final = re.compile(r"\{(\w+)\}")
_PIECE: Final = re.compile(r"\s?[A-Za-z]{1,6}|\s?[^A-Za-z\s]+|\s")


class SyntheticSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How many traces, of which domains, and how much is said in them.

    ``piece_ms`` is the time between two deltas; about one in ``pause_every`` is followed by a
    pause. Pauses of a second or more trigger the token gate's silence timer.
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


def list_case_ids(settings: SyntheticSettings) -> list[str]:
    """Return the names of all cases in order; domains alternate."""
    return [
        f"case-{settings.domains[index % len(settings.domains)]}-{index:04d}"
        for index in range(settings.cases)
    ]


def list_stub_case_ids() -> list[str]:
    """Return the names of cases without data."""
    return [f"case-stub-{index:03d}" for index in range(STUB_CASES)]


def describe_campaign(
    settings: SyntheticSettings, case_list_hash: str, exaid_commit: str
) -> TraceOrigin:
    """Return the origin of a campaign's traces."""
    # There is no model, so that only the seed says anything.
    decoding = {"temperature": 0.0, "top_p": None, "max_tokens": None, "seed": settings.seed}
    return TraceOrigin(
        mas_run_id=name_mas_run(
            mac_commit=COMMIT, model=MODEL, decoding=decoding, case_list_hash=case_list_hash
        ),
        mac_commit=COMMIT,
        exaid_commit=exaid_commit,
        model=MODEL,
        decoding=msgspec.convert(decoding, Decoding),
    )


def make_synthetic_trace(
    case_id: str, settings: SyntheticSettings, origin: TraceOrigin
) -> list[TraceRecord]:
    """Return the trace of one case."""
    name, _, number = case_id.removeprefix("case-").partition("-")
    if name not in settings.domains or not number.isdigit():
        raise BadInputError(f"these settings have no case {case_id!r}")
    draw = random.Random(f"{GENERATOR}/{settings.seed}/{case_id}")  # noqa: S311 - invents text
    base_ms = BASE_MS + int(number) * CASE_GAP_MS
    talk = _Talk(DOMAINS[name], settings, draw, base_ms)
    return build_trace_records(case_id, list(talk.turns()), origin)


def make_stub_trace(case_id: str, origin: TraceOrigin) -> list[TraceRecord]:
    """Return a stub trace, marked as such."""
    turns = []
    for place, agent_id in enumerate(STUB_AGENTS):
        start = BASE_MS + place * 1000
        words = f"Stub turn {place + 1} of {agent_id} for {case_id}.".split()
        pieces = tuple(
            (start + 50 + 30 * number, word if number == 0 else f" {word}")
            for number, word in enumerate(words)
        )
        turns.append(ScriptTurn(agent_id, start, pieces, start + 50 + 30 * len(words) + 100))
    return build_trace_records(case_id, turns, origin, stub=True)


class _Talk:
    """The talk of one case: the chair names an agent, the agent speaks, until the talk is over."""

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
            yield self._turn(agent_id, self._cut_pieces())
            if domain.parallel and draw.random() < 0.5:
                # Another agent starts before the first one is done.
                done_ms = self._now_ms
                self._now_ms -= draw.randint(500, 3000)
                others = [other for other in domain.agents if other != agent_id]
                yield self._turn(draw.choice(others), self._cut_pieces())
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

    def _cut_pieces(self) -> list[str]:
        count = self._draw.randint(*self._settings.sentences)
        sentences = [self._draw_sentence() for _ in range(count)]
        return _PIECE.findall(" ".join(sentences))

    def _draw_sentence(self) -> str:
        domain, draw = self._domain, self._draw
        template = draw.choice(domain.sentences)
        return _SLOT.sub(lambda slot: draw.choice(domain.slots[slot.group(1)]), template)
