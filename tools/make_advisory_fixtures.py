"""Makes the built-in fixture set: six lanes, every case, two halves that share no payload.

Run ``python tools/make_advisory_fixtures.py`` after changing a case; the manifest changes with
it, and so does the digest that records cite.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from advisory_cases import (
    advisory_gateway_envelope,
    batch_doc_triage,
    context_gate,
    cron_n8n_event,
    kanban_hygiene,
    voice_audio,
)
from advisory_cases.case import Draw, FixtureCase, encode_fixtures, pin_half
from gatemark.core.errors import InvalidValueError
from gatemark.plugins.advisory.fixtures.fixture import (
    FIXTURE_LANES,
    FIXTURE_SET,
    MANIFEST_FILE,
    Expected,
    Fixture,
    FixtureLane,
    FixtureManifest,
    Half,
)

SEED: Final = 11
MAX_DRAWS: Final = 200
CASES: Final[Mapping[str, tuple[FixtureCase, ...]]] = {
    "context_gate": context_gate.CASES,
    "cron_n8n_event": cron_n8n_event.CASES,
    "batch_doc_triage": batch_doc_triage.CASES,
    "voice_audio": voice_audio.CASES,
    "kanban_hygiene": kanban_hygiene.CASES,
    "advisory_gateway_envelope": advisory_gateway_envelope.CASES,
}


def make_halves(seed: int = SEED) -> dict[Half, tuple[Fixture, ...]]:
    """Both halves. Evaluation draws first; training draws again whenever it meets a payload."""
    taken: set[str] = set()
    halves: tuple[Half, ...] = ("evaluation", "training")
    return {half: tuple(_half(half, seed, taken)) for half in halves}


def _half(half: Half, seed: int, taken: set[str]) -> Iterator[Fixture]:
    for lane in FIXTURE_LANES:
        for case in CASES[lane.input_class]:
            for number in range(1, case.count(half) + 1):
                yield _fresh((lane, case), half, f"{number:03d}", seed, taken)


def _fresh(
    subject: tuple[FixtureLane, FixtureCase], half: Half, number: str, seed: int, taken: set[str]
) -> Fixture:
    """A fixture whose payload no other has."""
    lane, case = subject
    infix = "" if half == "evaluation" else "train_"
    name = f"{lane.prefix}_{infix}{case.name}_{number}"
    for attempt in range(MAX_DRAWS):
        fixture = Fixture(
            fixture_id=name,
            input_class=lane.input_class,
            case=case.name,
            kind=case.kind,
            privacy_class="synthetic",
            payload=case.build(Draw(f"{seed}/{name}/{attempt}", half)),
            expected=Expected(case.label, case.severity),
            expected_fallback=case.expected_fallback,
        )
        if fixture.content_hash not in taken:
            taken.add(fixture.content_hash)
            return fixture
    raise InvalidValueError(f"{name}: no new payload in {MAX_DRAWS} draws; widen the case's words")


def write(folder: Path) -> None:
    """Write both halves and the manifest into a folder."""
    halves = make_halves()
    manifest = FixtureManifest(
        fixture_set=FIXTURE_SET,
        evaluation=pin_half("evaluation.jsonl", halves["evaluation"]),
        training=pin_half("training.jsonl", halves["training"]),
        seed=SEED,
    )
    for half, fixtures in halves.items():
        (folder / f"{half}.jsonl").write_bytes(encode_fixtures(fixtures))
    document = msgspec.json.format(msgspec.json.encode(manifest, order="sorted"), indent=1)
    (folder / MANIFEST_FILE).write_bytes(document + b"\n")


if __name__ == "__main__":
    write(Path(__file__).parent / FIXTURE_SET)
