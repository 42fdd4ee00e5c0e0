"""Planted faults are found: 200 seeded agent runs, each with one step that is really to blame."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.attribution.planted import FAULTS, Case, planted

from gatemark.attribution.delta import smallest_change, versions_test
from gatemark.attribution.rank import rank
from gatemark.attribution.replay import Experiment
from gatemark.core.canonical import canonical_bytes

CASES = 200
REPEATS = 20


def experiment(case: Case) -> Experiment:
    right = {canonical_bytes(case.decision.judgement.expected)}
    return Experiment(
        decision=case.decision,
        reference=case.reference,
        replayer=case.world,
        oracle=lambda ended: "right" if canonical_bytes(ended) in right else "wrong",
        repeats=REPEATS,
        seed=1000,
    )


@pytest.mark.slow
def test_the_guilty_step_is_ranked_first_in_most_cases() -> None:
    ranks = []
    misses: Counter[str] = Counter()
    for number in range(CASES):
        case = planted(number)
        suspects = rank(case.decision, experiment(case).effects(), ())
        place = [suspect.step for suspect in suspects].index(case.guilty) + 1
        ranks.append(place)
        misses[case.fault] += place > 1
    first = sum(place == 1 for place in ranks) / CASES
    near = sum(place <= 3 for place in ranks) / CASES
    assert first >= 0.80, f"ranked first in {first:.2%}, missed {dict(misses)}"
    assert near >= 0.95, f"in the top three in {near:.2%}"


@pytest.mark.parametrize("number", range(len(FAULTS)))
def test_every_planted_decision_is_really_wrong_and_really_repairable(number: int) -> None:
    case = planted(number)
    assert case.decision.output != case.decision.judgement.expected
    effects = {effect.step: effect for effect in experiment(case).effects()}
    repaired = effects[case.guilty]
    assert repaired.interval is not None
    assert repaired.interval.low > 0


@pytest.mark.slow
def test_delta_debugging_names_the_guilty_version() -> None:
    named = 0
    numbers = [number for number in range(24) if not planted(number).by_chance]
    for number in numbers:
        case = planted(number)
        active = case.decision.pins()
        changed = {n: v for n, v in active.items() if case.reference.get(n, v) != v}
        test = versions_test(experiment(case), active, changed)
        smallest = smallest_change(sorted(changed), test)
        guilty = set(dict(case.decision.step(case.guilty).components()))
        named += len(smallest.changes) == 1 and set(smallest.changes) <= guilty
    assert named / len(numbers) >= 0.8, f"{named} of {len(numbers)}"
