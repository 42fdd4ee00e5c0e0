"""The review queue of a dry run: inputs that a person should decide, as samples to label.

A reviewer sees the input and not the recommendation, so that the label is independent. Accepted
labels are the references of the next run (``gatemark advisory run --labels``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.plugins.advisory.dry_run.folder import read_advisory_decisions
from gatemark.plugins.advisory.fixtures.files import open_fixtures, open_inputs
from gatemark.plugins.advisory.fixtures.fixture import Fixture
from gatemark.plugins.advisory.record import AdvisoryDecision
from gatemark.samples.importer import SAMPLE_SCHEMA

EXPECTED = "fixture_expected"


class ReviewQueue(msgspec.Struct, frozen=True):
    """Inputs to label, most records first.

    ``decided`` counts inputs that need review although their fixture has a decision: a label would
    not replace it, so they are left out unless requested.
    """

    fixtures: tuple[Fixture, ...]
    lanes: dict[str, int]
    decided: int

    def encode_samples(self) -> bytes:
        """Return the inputs as sample records for ``gatemark review labels create``."""
        return b"".join(
            msgspec.json.encode(
                {
                    "schema": SAMPLE_SCHEMA,
                    "id": fixture.fixture_id,
                    "epoch": 1,
                    "input": {"input_class": fixture.input_class, "payload": fixture.payload},
                    "target": None,
                    "output": None,
                    "scores": {},
                }
            )
            + b"\n"
            for fixture in self.fixtures
        )


def build_queue(
    paths: Sequence[str], fixtures: str, *, is_shadow: bool = False, with_decided: bool = False
) -> ReviewQueue:
    """Return the inputs whose records need a person, each input once.

    ``fixtures`` are those of the run, or with ``is_shadow`` its real inputs.
    """
    opened = open_inputs(fixtures).fixtures if is_shadow else open_fixtures(fixtures)
    known = {fixture.fixture_id: fixture for fixture in opened.fixtures}
    asked: Counter[str] = Counter()
    decided: set[str] = set()
    for place, record in chain.from_iterable(map(read_advisory_decisions, paths)):
        if not record.outcome.human_review_required:
            continue
        fixture = _find_fixture(record, known, place, fixtures)
        if record.human_or_atlas_decision.source == EXPECTED:
            decided.add(fixture.fixture_id)
            if not with_decided:
                continue
        asked[fixture.fixture_id] += 1
    chosen = [known[name] for name in sorted(asked, key=lambda name: (-asked[name], name))]
    lanes = Counter(fixture.input_class for fixture in chosen)
    return ReviewQueue(tuple(chosen), dict(lanes), len(decided))


def _find_fixture(
    record: AdvisoryDecision, known: Mapping[str, Fixture], place: str, fixtures: str
) -> Fixture:
    """Return the fixture of a record; other content under its name would be another question."""
    name = record.source.fixture_id
    fixture = known.get(name) if isinstance(name, str) else None
    if fixture is None:
        raise BadInputError(
            f"{place}: {fixtures} has no fixture {name!r}; give the fixtures of the run: --fixtures"
        )
    if record.source.content_hash not in (None, fixture.content_hash):
        raise BadInputError(f"{place}: {name} has another content in {fixtures} than in the record")
    return fixture
