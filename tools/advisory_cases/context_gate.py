"""Questions with the passages at hand: is there enough to answer, or must more be fetched."""

from __future__ import annotations

from typing import Any

from advisory_cases.case import Draw, FixtureCase

THINGS = (
    *("rose bed", "reading room", "boat shed", "clay oven", "rooftop garden", "loan desk"),
    *("herb spiral", "map cabinet", "tool bench", "seed vault", "rain barrel", "music room"),
)
FACTS = (
    ("opening hour", "The {thing} opens at {n} in the morning.", "opens"),
    ("weekly visits", "The {thing} is visited {n} times a week.", "visited"),
    ("lending period", "Things from the {thing} are lent for {n} days.", "lent"),
    ("number of places", "The {thing} has {n} places.", "places"),
    ("cleaning day", "The {thing} is cleaned every {n} days.", "cleaned"),
    ("minimum age", "The {thing} may be used from age {n}.", "age"),
)
ASK = (
    "What is the {fact} of the {thing}?",
    "Please tell me the {fact} of the {thing}.",
    "Which {fact} does the {thing} have?",
    "Do you know the {fact} of the {thing}?",
    "I need the {fact} of the {thing}.",
    "The {fact} of the {thing}, please?",
)
VAGUE = (
    "How about the other one?",
    "Is that still so for it?",
    "What did they say about this?",
    "And the usual one, as before?",
    "Can that be done there too?",
    "Which of them was it again?",
)
SUPERSEDED = (
    "An earlier note with another figure is withdrawn.",
    "A previous figure was corrected and no longer holds.",
    "The older note is withdrawn and only this one counts.",
    "This replaces the figure of last season.",
    "The former figure was a misprint and is withdrawn.",
    "Only the present figure holds, older ones are corrected.",
)


class _Topic:
    """A thing, one fact about it, and things it is not about."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.thing, *self.others = draw.several(THINGS, 4)
        self.fact, self.sentence, _ = draw.pick(FACTS)
        self.figure = draw.number(2, 28)

    def question(self) -> str:
        return self.draw.phrase(ASK).format(fact=self.fact, thing=self.thing)

    def answer(self, shift: int = 0) -> str:
        return self.sentence.format(thing=self.thing, n=self.figure + shift)

    def aside(self, place: int) -> str:
        _, sentence, _ = self.draw.pick(FACTS)
        return sentence.format(thing=self.others[place], n=self.draw.number(2, 28))


def _sufficient(draw: Draw) -> dict[str, Any]:
    topic = _Topic(draw)
    return {"question": topic.question(), "passages": [topic.answer(), topic.aside(0)]}


def _missing(draw: Draw) -> dict[str, Any]:
    topic = _Topic(draw)
    asides = [topic.aside(place) for place in range(draw.number(0, 2))]
    return {"question": topic.question(), "passages": asides}


def _conflicting(draw: Draw) -> dict[str, Any]:
    topic = _Topic(draw)
    other = topic.answer(draw.number(1, 9))
    return {"question": topic.question(), "passages": [topic.answer(), other, topic.aside(0)]}


def _superseded(draw: Draw) -> dict[str, Any]:
    topic = _Topic(draw)
    corrected = f"{topic.answer()} {draw.phrase(SUPERSEDED)}"
    return {
        "question": topic.question(),
        "passages": [topic.answer(draw.number(1, 9)), corrected],
    }


def _vague(draw: Draw) -> dict[str, Any]:
    topic = _Topic(draw)
    passages = [topic.answer(), topic.aside(0)][: draw.number(1, 2)]
    return {"question": draw.phrase(VAGUE), "passages": passages}


CASES = (
    FixtureCase("sufficient_context", "normal", "no_action", "none", 14, _sufficient),
    FixtureCase(
        "missing_context", "action_needed", "retrieve_more_context", "medium", 12, _missing
    ),
    FixtureCase(
        "conflicting_context", "action_needed", "retrieve_more_context", "medium", 8, _conflicting
    ),
    FixtureCase("superseded_context", "false_alarm", "no_action", "none", 9, _superseded),
    FixtureCase("vague_question", "low_confidence", "needs_human", "low", 5, _vague),
)
