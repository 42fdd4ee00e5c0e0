"""How often attribution without replay names the right step and agent, on real failures.

The failures are the 126 algorithm-generated conversations of Who&When, in which people marked the
agent and the step of the first decisive mistake. They are read from the folder that
``GATEMARK_REALITY`` names; the section says so where there is none.

Nothing is judged by what it was fitted on. The shipped weights and the threshold come from the logs
with odd numbers, and are judged by those with even numbers. The cross-validation fits new weights
for each ninth of all logs on the other eight. The clues themselves were designed on odd logs only.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from bench.measure import Line

REALITY = Path(os.environ.get("GATEMARK_REALITY", "reality"))
PENALTY = 1.0
FOLDS = 9
SEED = 20_261_117
Floats = NDArray[np.float64]


class MarkedFailure(NamedTuple):
    """A conversation with the step and the agent that people marked."""

    number: int
    decision: Any
    step: str
    agent: str


class Guess(NamedTuple):
    """What a method says about one failure; None where it abstains."""

    step: str | None
    agent: str | None
    probability: float = 0.0


Method = Callable[[MarkedFailure], Guess]


def marked_failures(folder: Path) -> list[MarkedFailure]:
    """Every log of the folder, read by the importer of chat logs."""
    from gatemark.release.attribution.from_traces import make_decisions  # noqa: PLC0415
    from gatemark.samples.importer import ReadOptions, open_foreign  # noqa: PLC0415
    from gatemark.samples.importers import chat_log  # noqa: PLC0415

    found = []
    for path in sorted(folder.glob("*.json"), key=lambda one: int(one.stem)):
        file = open_foreign(path, ReadOptions().limits)
        (decision,) = make_decisions([file], chat_log.read_spans).decisions
        mark = msgspec.json.decode(path.read_bytes())
        found.append(
            MarkedFailure(
                int(path.stem), decision, str(mark["mistake_step"]), str(mark["mistake_agent"])
            )
        )
    return found


def shipped(failure: MarkedFailure) -> Guess:
    """What ``gatemark attribute`` says without replay, other decisions or rules."""
    from gatemark.release.attribution.conclude import conclude_attribution  # noqa: PLC0415
    from gatemark.release.attribution.nouns import ReplayFact  # noqa: PLC0415

    fact = ReplayFact("none", 0, 0, {}, "not asked")
    found = conclude_attribution(
        failure.decision, effects=(), company=(), packs=(), replay=fact, changes=None
    )
    first = found.suspects[0]
    if found.cause is None or first.probability is None:
        return Guess(None, None)
    return Guess(found.cause, found.by_name[0][0], first.probability)


def _guess(failure: MarkedFailure, probabilities: Sequence[float]) -> Guess:
    from gatemark.release.attribution.clues import MIN_PROBABILITY, is_measured  # noqa: PLC0415

    best = int(np.argmax(probabilities))
    if not is_measured(failure.decision) or probabilities[best] < MIN_PROBABILITY:
        return Guess(None, None)
    agents: dict[str, float] = {}
    for step, share in zip(failure.decision.steps, probabilities, strict=True):
        agents[step.name] = agents.get(step.name, 0.0) + share
    return Guess(
        failure.decision.steps[best].id,
        max(agents, key=lambda name: agents[name]),
        float(probabilities[best]),
    )


def fit(failures: Sequence[MarkedFailure]) -> Floats:
    """Weights of the clues: a conditional logit over the steps, with a ridge penalty."""
    from scipy.optimize import minimize  # noqa: PLC0415

    matrices = [(_matrix(one), _place(one)) for one in failures]

    def loss(weights: Floats) -> tuple[float, Floats]:
        total, slope = PENALTY * float(weights @ weights), 2 * PENALTY * weights
        for clues, right in matrices:
            shares = _shares(clues, weights)
            total -= math.log(shares[right])
            slope = slope - clues[right] + shares @ clues
        return total, slope

    start = np.zeros(matrices[0][0].shape[1])
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B").x)


def _matrix(failure: MarkedFailure) -> Floats:
    from gatemark.release.attribution.clues import CLUES, read_steps  # noqa: PLC0415

    read = read_steps(failure.decision)
    return np.asarray([clue.values(failure.decision, read) for clue in CLUES]).T


def _place(failure: MarkedFailure) -> int:
    return [step.id for step in failure.decision.steps].index(failure.step)


def _shares(clues: Floats, weights: Floats) -> Floats:
    totals = clues @ weights
    shares = np.exp(totals - totals.max())
    return np.asarray(shares / shares.sum())


def cross_validated(failures: Sequence[MarkedFailure]) -> Mapping[int, Guess]:
    """A guess for each failure by weights that never saw it."""
    order = np.random.default_rng(SEED).permutation(len(failures))
    guesses = {}
    for fold in range(FOLDS):
        held = {failures[place].number for place in order[fold::FOLDS]}
        weights = fit([one for one in failures if one.number not in held])
        for one in failures:
            if one.number in held:
                guesses[one.number] = _guess(one, _shares(_matrix(one), weights).tolist())
    return guesses


def second_step(failure: MarkedFailure) -> Guess:
    """Always the step with index 1."""
    step = failure.decision.steps[1]
    return Guess(step.id, step.name)


def first_failed_call(failure: MarkedFailure) -> Guess:
    """The step before the first tool that ended in an error; abstains where none did."""
    from msgspec import UNSET  # noqa: PLC0415

    steps = failure.decision.steps
    failed = next((n for n, one in enumerate(steps) if n and one.error is not UNSET), None)
    return (
        Guess(None, None) if failed is None else Guess(steps[failed - 1].id, steps[failed - 1].name)
    )


def lines() -> Iterator[Line]:
    """Accuracy at the coverage answered, beside the baselines."""
    folder = REALITY / "whowhen"
    if not folder.is_dir():
        yield Line("marked failures (Who&When): no folder, not measured", 0, "logs")
        return
    failures = marked_failures(folder)
    held = [one for one in failures if one.number % 2 == 0]
    yield Line("marked failures (Who&When)", len(failures), "logs")
    # Published for these logs (arXiv 2505.00212), given the right answer.
    yield Line("published: best step accuracy of an LLM judge", 25.5, "%")
    yield Line("published: best agent accuracy of an LLM judge", 54.3, "%")
    yield from _accuracy("always step 1, all logs", failures, second_step)
    yield from _accuracy("before the first failed tool, all logs", failures, first_failed_call)
    agents = [len({step.name for step in one.decision.steps}) for one in failures]
    yield Line("random agent: agent accuracy", 100 * float(np.mean([1 / n for n in agents])), "%")
    yield from _accuracy("always step 1, logs with even numbers", held, second_step)
    yield from _accuracy("gatemark, logs with even numbers", held, shipped, bars=True)
    guesses = cross_validated(failures)
    yield from _accuracy(
        "gatemark, cross-validated", failures, lambda one: guesses[one.number], bars=True
    )


def _accuracy(
    name: str, failures: Sequence[MarkedFailure], method: Method, *, bars: bool = False
) -> Iterator[Line]:
    from gatemark.statistics.proportion import wilson_interval  # noqa: PLC0415

    guesses = [(one, method(one)) for one in failures]
    answered = [(one, guess) for one, guess in guesses if guess.step is not None]
    covered = 100 * len(answered) / len(failures)
    yield Line(f"{name}: answered", covered, "%", at_least=50.0 if bars else None)
    for what, bar, right in (
        ("step", 27.0, sum(one.step == guess.step for one, guess in answered)),
        ("agent", 29.1, sum(one.agent == guess.agent for one, guess in answered)),
    ):
        low, high = wilson_interval(right, len(answered), 0.95)
        claim = f"{name}: {what} right [{100 * low:.0f}, {100 * high:.0f}] of {len(answered)}"
        value = 100 * right / len(answered)
        yield Line(claim, value, "%", at_least=bar if bars else None)
    if bars:
        said = 100 * float(np.mean([guess.probability for _, guess in answered]))
        yield Line(f"{name}: mean probability stated for these steps", said, "%")
