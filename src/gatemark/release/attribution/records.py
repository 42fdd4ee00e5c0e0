"""One decision of an agent with its plan and a later judgement: ``gatemark.decision/1``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET

from gatemark.core.record import BadExample, Form, Problem, RecordSchema
from gatemark.release.attribution.decision import NAME, QUESTION, PlannedDecision


def steps_follow_a_plan(decision: PlannedDecision) -> list[Problem]:
    """Require unique ids, sources before their dependents, and an end for each step."""
    problems = []
    seen: set[str] = set()
    for number, step in enumerate(decision.steps):
        place = f"$.steps[{number}]"
        if step.id in seen or step.id == QUESTION:
            problems.append(Problem(f"{place}.id", f"{step.id!r} is taken"))
        problems.extend(
            Problem(f"{place}.sources", f"{source!r} is neither an earlier step nor {QUESTION!r}")
            for source in step.sources
            if source != QUESTION and source not in seen
        )
        if (step.output is UNSET) == (step.error is UNSET):
            problems.append(Problem(place, "a step needs an output or an error, and not both"))
        seen.add(step.id)
    return problems


def one_version_per_component(decision: PlannedDecision) -> list[Problem]:
    """Check that a decision uses one version of each component."""
    versions: dict[str, str] = {}
    problems = []
    for number, step in enumerate(decision.steps):
        for name, version in step.components():
            if versions.setdefault(name, version) != version:
                problems.append(
                    Problem(
                        f"$.steps[{number}]",
                        f"{name} has version {version!r} here and {versions[name]!r} before",
                    )
                )
    return problems


def _make_step(**changes: object) -> dict[str, object]:
    step = {
        "id": "look-up",
        "kind": "retrieval",
        "name": "tariffs",
        "sources": ["input"],
        "output": ["small parcels cost 4"],
        "retrieval": {"name": "tariffs", "version": "2026-10"},
    }
    return {key: value for key, value in (step | changes).items() if value is not None}


_ANSWER: Final = {
    "id": "answer",
    "kind": "model",
    "name": "writer",
    "sources": ["input", "look-up"],
    "output": "It costs 4.",
    "model": {"name": "writer", "version": "small-3"},
    "prompt": {"name": "writer", "version": "r7"},
    "checks": [{"pack": "prices", "rule": "price-is-quoted", "verdict": "pass"}],
}
_DECISION: Final[dict[str, object]] = {
    "id": "d-1",
    "input": "What does a small parcel cost?",
    "output": "It costs 4.",
    "steps": [_make_step(), _ANSWER],
    "judgement": {"verdict": "wrong", "reviewer": "r2", "expected": "It costs 5."},
}


def _make_decision(*steps: Mapping[str, object]) -> Mapping[str, object]:
    return _DECISION | {"steps": list(steps)}


SCHEMA: Final = RecordSchema(
    name=NAME,
    summary="One decision of an agent: its steps with their versions, and a later judgement.",
    forms=(
        Form(
            name="decision",
            type=PlannedDecision,
            marks=frozenset({"id", "steps", "output"}),
            identity="id",
            good=(
                _DECISION,
                _DECISION | {"schema": NAME, "asset": "desk", "version": "v3"},
                _make_decision(_make_step(output=None, error="timed out"), _ANSWER),
            ),
            bad=(
                BadExample("no steps", _make_decision(), "$.steps"),
                BadExample(
                    "a step twice", _make_decision(_make_step(), _make_step()), "$.steps[1].id"
                ),
                BadExample(
                    "a source that comes later",
                    _make_decision(_make_step(sources=["answer"]), _ANSWER),
                    "$.steps[0].sources",
                ),
                BadExample(
                    "no end", _make_decision(_make_step(output=None), _ANSWER), "$.steps[0]"
                ),
                BadExample(
                    "two ends", _make_decision(_make_step(error="x"), _ANSWER), "$.steps[0]"
                ),
                BadExample(
                    "two versions of one thing",
                    _make_decision(
                        _make_step(),
                        _ANSWER | {"retrieval": {"name": "tariffs", "version": "2026-11"}},
                    ),
                    "$.steps[1]",
                ),
                BadExample(
                    "an unknown kind", _make_decision(_make_step(kind="magic")), "$.steps[0].kind"
                ),
                BadExample(
                    "a verdict of no kind",
                    _DECISION | {"judgement": {"verdict": "meh", "reviewer": "r2"}},
                    "$.judgement.verdict",
                ),
            ),
            rules=(steps_follow_a_plan, one_version_per_component),
        ),
    ),
)
