"""The published JSON Schema refuses what the command refuses, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import jsonschema_rs
import msgspec
import pytest

from gatemark.exams.advisory.record import AdvisoryDecision
from gatemark.exams.advisory.record_schema import SCHEMA
from gatemark.packs.documents import make_json_schema

_FORM = SCHEMA.form("decision")
_VALIDATOR = jsonschema_rs.validator_for(make_json_schema(SCHEMA.name))


def refused(record: dict[str, Any]) -> bool:
    """Whether ``gatemark validate`` refuses a record."""
    try:
        typed = msgspec.convert(record, AdvisoryDecision)
    except msgspec.ValidationError:
        return True
    return any(rule(typed) for rule in (*_FORM.rules, *_FORM.breaches))


def literals(hint: Any) -> Iterator[Any]:
    """Every value that a type spells out."""
    if get_origin(hint) is Literal:
        yield from get_args(hint)
    elif hint is bool:
        yield from (True, False)
    elif get_origin(hint) in (Union, type(int | str)):
        for part in get_args(hint):
            yield from literals(part)


def mutants(record: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return copies with one field gone, null, of another type, or of another allowed value."""
    for section, value in record.items():
        places: list[tuple[str, ...]] = [(section,)]
        hints: dict[str, Any] = {}
        if isinstance(value, dict):
            struct = get_type_hints(AdvisoryDecision)[section]
            hints = get_type_hints(struct)
            places += [(section, name) for name in hints]
        for place in places:
            choices: list[Any] = [..., None, 0, 1, -1, 0.5, 0.97, True, False, "", " ", "x", [], {}]
            choices += [["send_message"], ["a"] * 33, "a?b=1", "2026-02-30T00:00:00Z"]
            choices += [["local_report_write:restarted nginx"], ["local_report:../a.json"]]
            if len(place) == 2:
                choices += list(literals(hints[place[1]]))
            for choice in choices:
                copy = deepcopy(record)
                parent = copy if len(place) == 1 else copy[section]
                if choice is ...:
                    parent.pop(place[-1], None)
                else:
                    parent[place[-1]] = choice
                yield ".".join(place) + f"={choice!r}", copy


_CASES = [pytest.param(dict(good), id=str(number)) for number, good in enumerate(_FORM.good)]


@pytest.mark.parametrize("good", _CASES)
def test_the_schema_and_the_command_agree_on_mutants(good: dict[str, Any]) -> None:
    assert _VALIDATOR.is_valid(good)
    seen = 0
    for name, mutant in mutants(good):
        seen += 1
        assert _VALIDATOR.is_valid(mutant) != refused(mutant), f"{name}: {json.dumps(mutant)}"
    assert seen > 1_000


@pytest.mark.parametrize("bad", [pytest.param(one, id=one.title) for one in _FORM.bad])
def test_the_schema_refuses_every_bad_example(bad: Any) -> None:
    assert not _VALIDATOR.is_valid(bad.record)
