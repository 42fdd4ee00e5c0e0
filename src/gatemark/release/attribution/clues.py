"""Clues: what the record of a decision shows about its steps if nothing can be run again.

Each clue is a number per step. A fixed weight for each and a softmax over the steps give the
probability that a step is the first decisive mistake. The weights were fitted on 63 conversations
of agents whose first mistake people had marked, and measured on 63 others; ``make bench`` prints
both (section ``attribution-quality``). Outside this range no step is named: the record must have
`MIN_STEPS` steps and a minimum amount of text. No step is named below `MIN_PROBABILITY` either.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import UNSET

from gatemark.release.attribution.decision import QUESTION, DecisionStep, PlannedDecision

MIN_PROBABILITY: Final = 0.3
"""Below this probability, no step is named."""
MIN_STEPS: Final = 5
"""With fewer steps, no step is named: the measured conversations have 5 to 10."""
LIKELY: Final = 0.5
"""From this probability on, the confidence is medium instead of low."""
MAX_TEXT: Final = 100_000
SHORT_TEXT: Final = 150
_NUMBER: Final = re.compile(r"\d[\d,]*(?:\.\d+)?")
_WORD: Final = re.compile(r"[a-z]{4,}")
_FAREWELL: Final = "TERMINATE"
_CODE: Final = "```"
_ASSUMPTION: Final = re.compile(
    r"\b(?:assum|hypothe|simulat|suppos|presum|placeholder|mock|likely|estimat|approximat|example)",
    re.IGNORECASE,
)
TOOL: Final = "tool"


class StepRecord(msgspec.Struct, frozen=True):
    """One step as the clues read it."""

    step: DecisionStep
    text: str
    numbers: frozenset[str]
    words: frozenset[str]
    is_tool: bool
    failed: bool
    answers: tuple[int, ...]
    """The tool steps that it called."""
    place: int

    @property
    def is_code(self) -> bool:
        """Whether the step wrote code or called a tool."""
        return not self.is_tool and (_CODE in self.text or bool(self.answers))


Records = Sequence[StepRecord]


class Clue(msgspec.Struct, frozen=True):
    """One clue: its weight, how it is computed, and its description.

    ``words`` is None for clues about the position or kind of a step; those alone name no step.
    """

    name: str
    weight: float
    values: Callable[[PlannedDecision, Records], list[float]]
    words: str | None = None


class StepLikelihood(msgspec.Struct, frozen=True):
    """The probability that a step is the first decisive mistake, and the clues behind it."""

    step: str
    probability: float
    clues: tuple[str, ...]


def estimate_likelihoods(
    decision: PlannedDecision, changed: Collection[str] = ()
) -> tuple[StepLikelihood, ...]:
    """Return every step with its probability, in plan order.

    ``changed`` names components with an unusual version: a changed tool is suspected like any other
    step, and is not cleared because its caller is blamed.
    """
    read = read_steps(decision, changed)
    columns = {clue.name: clue.values(decision, read) for clue in CLUES}
    totals = [
        math.fsum(clue.weight * columns[clue.name][place] for clue in CLUES)
        for place in range(len(read))
    ]
    highest = max(totals)
    shares = [math.exp(total - highest) for total in totals]
    whole = math.fsum(shares)
    return tuple(
        StepLikelihood(
            one.step.id,
            shares[one.place] / whole,
            tuple(
                clue.words
                for clue in CLUES
                if clue.words is not None and columns[clue.name][one.place] * clue.weight > 0
            ),
        )
        for one in read
    )


def read_steps(decision: PlannedDecision, changed: Collection[str] = ()) -> tuple[StepRecord, ...]:
    """Return the steps with the parts that the clues read."""
    texts = [
        read_output(step.error if step.error is not UNSET else step.output)
        for step in decision.steps
    ]
    places = {step.id: place for place, step in enumerate(decision.steps)}
    tools = [
        step.kind == TOOL and not any(name in changed for name, _ in step.components())
        for step in decision.steps
    ]
    called: dict[int, list[int]] = {}
    for place, step in enumerate(decision.steps):
        if tools[place]:
            for source in step.sources:
                if source != QUESTION and not tools[places[source]]:
                    called.setdefault(places[source], []).append(place)
    return tuple(
        StepRecord(
            step=step,
            text=text,
            numbers=find_numbers(text),
            words=frozenset(_WORD.findall(text.lower())),
            is_tool=tools[place],
            failed=step.error is not UNSET,
            answers=tuple(called.get(place, ())),
            place=place,
        )
        for place, (step, text) in enumerate(zip(decision.steps, texts, strict=True))
    )


def read_output(value: object) -> str:
    """Return an output as text for the clues, cut at a maximum length."""
    if value is None or value is UNSET:
        return ""
    text = value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()
    return text[:MAX_TEXT]


def find_numbers(text: str) -> frozenset[str]:
    """Return the numbers of a text, without thousands separators."""
    return frozenset(found.replace(",", "") for found in _NUMBER.findall(text))


def _is_tool(_decision: PlannedDecision, read: Records) -> list[float]:
    return [float(one.is_tool) for one in read]


def _score_place(place: int) -> Callable[[PlannedDecision, Records], list[float]]:
    return lambda _decision, read: [float(one.place == place) for one in read]


def _score_first_failed_call(_decision: PlannedDecision, read: Records) -> list[float]:
    """Score the step that called the first failed tool."""
    first = next(
        (one.place for one in read if any(read[answer].failed for answer in one.answers)), None
    )
    return [float(one.place == first) for one in read]


def _score_code(_decision: PlannedDecision, read: Records) -> list[float]:
    return [float(one.is_code) for one in read]


def _is_short(_decision: PlannedDecision, read: Records) -> list[float]:
    return [float(len(one.text.replace(_FAREWELL, "").strip()) < SHORT_TEXT) for one in read]


def _score_assumptions(_decision: PlannedDecision, read: Records) -> list[float]:
    """Score steps that state an assumption; the first step often only states the task."""
    return [
        float(one.place > 0 and not one.is_tool and bool(_ASSUMPTION.search(one.text)))
        for one in read
    ]


def _count_unsupported_numbers(decision: PlannedDecision, read: Records) -> list[float]:
    """Count the numbers that a step states without support from question, step or tool."""
    seen = set(find_numbers(read_output(decision.input)))
    found = []
    for one in read:
        counts = one.place > 0 and not one.is_tool and not one.is_code
        found.append(math.log1p(len(one.numbers - seen)) if counts else 0.0)
        seen |= one.numbers
    return found


def _score_origin(decision: PlannedDecision, read: Records) -> list[float]:
    """Score the step where the wrong answer came from: the first to state one of its numbers.

    The question and the first step, which often repeats the task, do not count.
    """
    known = find_numbers(read_output(decision.input)) | (read[0].numbers if read else frozenset())
    wanted = find_numbers(read_output(decision.output)) - known
    first = next((one for one in read if wanted & one.numbers), None)
    return [float(first is one and not one.is_tool) for one in read]


def _score_going_on(_decision: PlannedDecision, read: Records) -> list[float]:
    """Score steps that continue after a failed or empty tool call without another attempt."""
    places = {one.step.id: one for one in read}
    found = []
    for one in read:
        sources = [places[name] for name in one.step.sources if name in places]
        failed = any(source.is_tool and source.failed for source in sources)
        found.append(float(failed and not one.is_tool and not one.is_code))
    return found


def _score_repetition(_decision: PlannedDecision, read: Records) -> list[float]:
    """Score how much a step repeats an earlier one of the same name: the shared words."""
    found = []
    for one in read:
        earlier = [
            other.words
            for other in read[1 : one.place]
            if other.step.name == one.step.name and not one.is_tool
        ]
        shares = [len(one.words & words) / max(1, len(one.words | words)) for words in earlier]
        found.append(max(shares, default=0.0))
    return found


CLUES: Final = (
    Clue("tool", -1.01, _is_tool),
    Clue("first", 0.31, _score_place(0)),
    Clue("second", 0.51, _score_place(1)),
    Clue("short", -0.95, _is_short),
    Clue("acts", 0.83, _score_code, "it decides what a tool is asked"),
    Clue("repeats", -0.31, _score_repetition),
    Clue(
        "first_failed_call", 0.29, _score_first_failed_call, "it called the first tool that failed"
    ),
    Clue("goes_on", 0.37, _score_going_on, "it went on after a tool had failed"),
    Clue("assumes", 0.46, _score_assumptions, "it assumes something"),
    Clue(
        "unsupported",
        0.33,
        _count_unsupported_numbers,
        "it states numbers that nothing before it holds",
    ),
    Clue("origin", 0.95, _score_origin, "it is the first to state a number of the wrong answer"),
)


def find_named_step(
    decision: PlannedDecision, found: Sequence[StepLikelihood]
) -> StepLikelihood | None:
    """Return the step that the clues name, or None if they cannot tell."""
    best = max(found, key=lambda one: one.probability)
    is_named = is_measured(decision) and bool(best.clues) and best.probability >= MIN_PROBABILITY
    return best if is_named else None


def is_measured(decision: PlannedDecision) -> bool:
    """Return whether a decision is like those that the clues were measured on."""
    texts = (read_output(step.output) for step in decision.steps if step.kind != TOOL)
    return len(decision.steps) >= MIN_STEPS and any(len(text) >= SHORT_TEXT for text in texts)


def sum_by_name(decision: PlannedDecision, found: Sequence[StepLikelihood]) -> Mapping[str, float]:
    """Return the probability that each name, such as an agent's, made the mistake."""
    shares: dict[str, float] = {}
    for step, one in zip(decision.steps, found, strict=True):
        shares[step.name] = shares.get(step.name, 0.0) + one.probability
    return shares
