"""Planted faults are found: 200 seeded agent runs, each with one step that is really to blame."""

from __future__ import annotations

import msgspec
import pytest
from statsmodels.stats.proportion import confint_proportions_2indep
from tests.release.attribution.planted import FAULTS, Case, planted

from gatemark.core.canonical import canonical_bytes
from gatemark.core.measurement import Interval
from gatemark.release.attribution.delta import find_smallest_change, make_versions_test
from gatemark.release.attribution.rank import rank_suspects
from gatemark.release.attribution.replay import Experiment

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


def places(case: Case, *, replay: bool = True) -> int:
    """At which place the guilty step is ranked."""
    effects = experiment(case).effects() if replay else ()
    return [suspect.step for suspect in rank_suspects(case.decision, effects, ())].index(
        case.guilty
    ) + 1


@pytest.mark.slow
@pytest.mark.parametrize("murky", [False, True], ids=["plain", "murky"])
def test_the_guilty_step_is_found_whatever_kind_of_fault_it_is(murky: bool) -> None:
    found: dict[str, list[int]] = {fault: [] for fault in FAULTS}
    for number in range(CASES):
        case = planted(number, murky=murky)
        found[case.fault].append(places(case))
    found["all"] = [place for ranks in found.values() for place in ranks]
    for fault, ranks in found.items():
        first = sum(place == 1 for place in ranks) / len(ranks)
        near = sum(place <= 3 for place in ranks) / len(ranks)
        assert first >= 0.80, f"{fault}: ranked first in {first:.2%}"
        assert near >= 0.95, f"{fault}: in the top three in {near:.2%}"


def test_nothing_but_replay_gives_the_guilty_step_away() -> None:
    cases = [planted(number, murky=True) for number in range(CASES)]
    assert sum(places(case, replay=False) == 1 for case in cases) / CASES < 0.25
    for at in (0, -1):
        named = sum(case.decision.steps[at].id == case.guilty for case in cases)
        assert named / CASES < 0.3
    widths = {len(case.decision.steps) for case in cases}
    assert min(widths) <= 5
    assert max(widths) >= 9


def test_a_repair_that_helps_once_in_a_while_is_not_called_sure() -> None:
    case = planted(1)
    effects = experiment(case).effects()
    (guilty,) = (effect for effect in effects if effect.step == case.guilty)
    rare = msgspec.structs.replace(
        guilty, effect=0.05, interval=Interval(low=0.01, high=0.24, level=0.95, method="wilson")
    )
    weak = [rare if effect is guilty else effect for effect in effects]
    others = [effect for effect in weak if effect is rare or not effect.effect]
    (first, *_) = rank_suspects(case.decision, others, ())
    assert (first.step, first.confidence) == (case.guilty, "medium")
    assert rank_suspects(case.decision, effects, ())[0].confidence == "high"


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
        test = make_versions_test(experiment(case), active, changed)
        smallest = find_smallest_change(sorted(changed), test)
        guilty = set(dict(case.decision.step(case.guilty).components()))
        named += len(smallest.changes) == 1 and set(smallest.changes) <= guilty
    assert named / len(numbers) >= 0.8, f"{named} of {len(numbers)}"


def test_what_versions_made_has_newcombes_interval() -> None:
    case = planted(1, murky=True)
    (found,) = (one for one in experiment(case).effects() if one.step == case.guilty)
    assert found.versions_interval is not None
    low, high = confint_proportions_2indep(
        found.repaired.right,
        found.repaired.judged,
        found.rerun.right,
        found.rerun.judged,
        method="newcomb",
        compare="diff",
    )
    assert (found.versions_interval.low, found.versions_interval.high) == pytest.approx((low, high))
