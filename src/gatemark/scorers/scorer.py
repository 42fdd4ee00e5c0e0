"""The scorer interface: an answered item in, a number in [0, 1] or the reason for none out."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final, TypeVar

import msgspec

from gatemark.core.canonical import digest
from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.core.reason import Reason
from gatemark.core.registry import Registry
from gatemark.evidence.settings_file import problem_in

MAX_TEXT_LENGTH: Final = 1_000_000
"""Maximum length of an output or a target for a text scorer, in characters."""
SHOWN_LENGTH: Final = 200
"""Maximum length of a value in a detail, in characters."""


class Scorable(msgspec.Struct, frozen=True):
    """One item with its answer. ``sample`` is the complete record, for scorers that need more.

    A target or an output of None is missing. JSON null as an answer is written as the text
    ``null``, which ``json_equal`` reads.
    """

    id: str
    input: object
    target: object
    output: object
    sample: Mapping[str, object] = {}

    def output_text(self) -> str:
        """Return the output as text; other values as JSON."""
        return text_of(self.output, "output")

    def target_texts(self) -> tuple[str, ...]:
        """Return every accepted answer as text; a list of targets means any of them."""
        if not isinstance(self.target, (list, tuple)):
            return (text_of(self.target, "target"),)
        if not self.target:
            raise BadInputError("target must name at least one accepted answer, got an empty list")
        return tuple(text_of(target, "target") for target in self.target)


class Score(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number in [0, 1], or the reason why there is none; ``detail`` explains the score.

    ``parts`` are the scores that a combined one is made of, by name.
    """

    value: float | None
    reason: str | None = None
    detail: dict[str, str] = {}
    parts: dict[str, float] = {}

    def __post_init__(self) -> None:
        if (self.value is None) == (self.reason is None):
            raise InvalidValueError("a score needs a value or a reason, and not both")
        if self.value is not None and not 0 <= self.value <= 1:
            raise InvalidValueError(f"a score must be in [0, 1], got {self.value}")
        if self.reason is not None and not self.reason.strip():
            raise InvalidValueError("a score has an empty reason")


ScoreFunction = Callable[[Scorable], Score]
Options = TypeVar("Options")


def with_options(score: Callable[[Options, Scorable], Score]) -> Callable[[Options], ScoreFunction]:
    """Return the ``build`` of a scorer that prepares nothing: its function gets the options."""
    return lambda options: partial(score, options)


def find_best_target(item: Scorable, similarity: Callable[[str], float]) -> tuple[float, str]:
    """Return the highest similarity to an accepted answer, and that answer for a detail."""
    best, closest = -1.0, ""
    for target in item.target_texts():
        found = similarity(target)
        if found > best:
            best, closest = found, target
    return best, truncate(closest)


def scored(value: float, **detail: str) -> Score:
    """Return a score with a value."""
    return Score(value=float(value), detail=detail)


def unscored(reason: str, **detail: str) -> Score:
    """Return a score without a value, and the reason."""
    return Score(value=None, reason=reason, detail=detail)


class KnownScore(msgspec.Struct, frozen=True):
    """A worked example of a scorer: title, expected score, target, output.

    With ``expected`` None it must give a reason.
    """

    title: str
    expected: float | None
    target: object = None
    output: object = None
    input: object = None
    sample: Mapping[str, object] = {}
    options: Mapping[str, object] = {}
    tolerance: float = 1e-9

    def scorable(self) -> Scorable:
        """Return the item of the example."""
        return Scorable(self.title, self.input, self.target, self.output, self.sample)


def _pin_nothing(_: object) -> dict[str, str]:
    return {}


class Scorer(msgspec.Struct, frozen=True):
    """A scorer plugin: its name, its options, and how to build its function from them.

    ``build`` may raise BadInputError for invalid options; its function may raise BadInputError for
    an item that cannot be scored. ``pins`` are digests of files that the options point to;
    ``places`` are options that say where something is, and are not part of the identity.
    """

    name: str
    summary: str
    options: type[msgspec.Struct]
    build: Callable[[Any], ScoreFunction]
    known: tuple[KnownScore, ...]
    needs_target: bool = True
    needs_output: bool = True
    version: int = 1
    pins: Callable[[Any], dict[str, str]] = _pin_nothing
    places: tuple[str, ...] = ()

    def options_from(self, given: Mapping[str, object]) -> msgspec.Struct:
        """Return typed options; an error names this scorer."""
        try:
            return msgspec.convert(dict(given), self.options)
        except msgspec.ValidationError as error:
            problem = problem_in(str(error), self.options)
            where = "" if problem.path is None or problem.is_complete else f" (at {problem.path})"
            raise BadInputError(f"scorer {self.name}: {problem.message}{where}") from error

    def ready(self, options: msgspec.Struct) -> ScoreFunction:
        """Return the scoring function; an item it cannot score gets a reason, never a zero."""
        score = self.build(options)

        def score_item(item: Scorable) -> Score:
            missing = self._find_missing(item)
            if missing is not None:
                return unscored(missing)
            try:
                return score(item)
            except BadInputError as error:
                return unscored(str(error))

        return score_item

    def identity(self, options: msgspec.Struct) -> dict[str, str]:
        """Return what must be equal for two scores to be comparable."""
        settings = msgspec.to_builtins(options)
        for place in self.places:
            settings.pop(place, None)
        return {
            "scorer": self.name,
            "version": str(self.version),
            "options": digest(settings),
            **self.pins(options),
        }

    def _find_missing(self, item: Scorable) -> str | None:
        error = item.sample.get("error")
        if error is not None:
            kind = error.get("kind") if isinstance(error, Mapping) else error
            return f"the sample ended in an error: {truncate(kind)}"
        if self.needs_output and item.output is None:
            return "the sample has no output"
        if self.needs_target and item.target is None:
            return f"scorer {self.name} needs a target, and the sample has none"
        return None


class JudgeQualification(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether a model judge agrees with people well enough for its scores to gate.

    ``judge`` is the digest of the judge's identity: a qualification holds for that judge alone.
    """

    judge: str
    n: int
    kappa: float | None
    kappa_low: float | None
    ac1: float | None
    ac1_low: float | None
    gate: float
    allowed: bool
    reason: Reason | None

    def __post_init__(self) -> None:
        if self.allowed != (self.reason is None):
            raise InvalidValueError(
                "a judge qualification is allowed, or says why not, and not both"
            )
        bounds = (self.kappa_low, self.ac1_low)
        if self.allowed and not all(low is not None and low >= self.gate for low in bounds):
            raise InvalidValueError(
                f"a judge qualification needs lower bounds >= {self.gate}, got {bounds}"
            )

    def covers(self, judge: str) -> bool:
        """Return whether this qualification allows the judge of that identity to gate."""
        return self.allowed and self.judge == judge


def text_of(value: object, subject: str) -> str:
    """Return a JSON value as bounded text; ``subject`` names it in errors."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, float) and not math.isfinite(value):
        raise BadInputError(f"{subject} must be JSON, got {value}")
    else:
        try:
            text = json.dumps(
                value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
            )
        except (TypeError, ValueError) as error:
            raise BadInputError(f"{subject} must be JSON: {error}") from error
        except RecursionError as error:
            raise BadInputError(f"{subject} is nested too deeply to be read") from error
    if len(text) > MAX_TEXT_LENGTH:
        raise BadInputError(
            f"{subject} must have at most {MAX_TEXT_LENGTH} characters, got {len(text)}"
        )
    return text


def truncate(value: object, limit: int = SHOWN_LENGTH) -> str:
    """Return a value as text, cut to a length that fits a detail or a message."""
    try:
        text = value if isinstance(value, str) else repr(value)
    except (ValueError, RecursionError):
        # A number of thousands of digits, or a value nested too deeply to print.
        text = f"a {type(value).__name__}"
    return text if len(text) <= limit else text[: limit - 1] + "…"


@cache
def scorers() -> Registry[Scorer]:
    """Return the registry of scorers."""
    return Registry(
        kind="scorer",
        places=("gatemark.scorers.*",),
        attribute="SCORER",
        plugin_type=Scorer,
        name_of=lambda scorer: scorer.name,
    )
