"""What an editor and the lists know of scorers and targets comes from their types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from gatemark.evidence.exam_suite import suites
from gatemark.packs.documents import make_json_schema
from gatemark.packs.option_list import (
    describe_judges,
    describe_pack,
    describe_probes,
    describe_scorers,
    describe_targets,
    list_options,
)
from gatemark.scorers.scorer import scorers

Run = Callable[..., Any]

PACK = {
    "gatemark": 1,
    "name": "t",
    "version": 1,
    "asset": {"kind": "prompt", "name": "t"},
    "score_min": 0.5,
    "regression_max": 0.1,
}


def pack(scorer: Any, target: Any) -> dict[str, Any]:
    suite = {"id": "g", "kind": "golden", "weight": 1.0, "dataset": "g.jsonl", "scorer": scorer}
    return {**PACK, "suites": [suite], "targets": {"candidate": target, "baseline": "none"}}


PYTHON = {"python": "app:answer"}


@pytest.mark.parametrize(
    ("scorer", "target", "is_valid"),
    [
        ("exact", PYTHON, True),
        ("exakt", PYTHON, False),
        ({"name": "regex", "options": {"pattern": "x"}}, PYTHON, True),
        ({"name": "regex", "options": {"patern": "x"}}, PYTHON, False),
        ({"name": "regex", "options": {"match": "half"}}, PYTHON, False),
        ({"name": "combined", "options": {"scorers": [{"scorer": "exact"}]}}, PYTHON, True),
        ("exact", {"pyton": "app:answer"}, False),
        ("exact", {"http": {"url": "http://127.0.0.1/", "response": "a"}}, True),
        ("exact", {"http": {"url": "http://127.0.0.1/", "respons": "a"}}, False),
    ],
)
def test_the_schema_of_a_pack_knows_scorers_and_targets(
    scorer: Any, target: Any, is_valid: bool
) -> None:
    validator = jsonschema.Draft202012Validator(make_json_schema("gatemark.pack/1"))
    assert validator.is_valid(pack(scorer, target)) == is_valid


def test_scorers_are_listed_with_their_options(gatemark: Run) -> None:
    listed = gatemark("scorers", "--json").json
    assert tuple(listed) == scorers().names()
    (option,) = listed["rouge_l"]["options"]
    assert (option["name"], option["default"], option["is_required"]) == ("measure", "f1", False)
    one = gatemark("scorers", "rouge_l").out
    assert 'measure (default "f1")  Share of both texts' in one
    wrong = gatemark("scorers", "rogue_l")
    assert wrong.code == 2
    assert "did you mean 'rouge_l'?" in wrong.err


def test_targets_are_listed_with_their_options(gatemark: Run) -> None:
    listed = gatemark("targets", "--json").json
    names = [option["name"] for option in listed["target"]["options"]]
    assert {"python", "command", "http", "openai", "recorded", "retries"} <= set(names)
    required = [one["name"] for one in listed["http"]["options"] if one["is_required"]]
    assert "url" in required


def test_plugins_of_others_are_listed(gatemark: Run) -> None:
    assert gatemark("plugins").code == 0


@pytest.mark.parametrize(
    ("kind", "options", "is_valid"),
    [
        ("golden", {"k": 2}, True),
        ("golden", {"kk": 2}, False),
        ("golden", {"k": 0}, False),
        ("calibration", {"bins": 10}, True),
        ("calibration", {"bins": "ten"}, False),
        ("goldn", {}, False),
    ],
)
def test_the_schema_of_a_pack_knows_the_options_of_suites(
    kind: str, options: dict[str, Any], is_valid: bool
) -> None:
    document = pack("exact", PYTHON)
    document["suites"][0] |= {"kind": kind, "options": options}
    validator = jsonschema.Draft202012Validator(make_json_schema("gatemark.pack/1"))
    assert validator.is_valid(document) == is_valid


@pytest.mark.parametrize(
    "describe",
    [describe_pack, describe_judges, describe_probes, describe_scorers, describe_targets],
)
def test_every_option_says_what_it_means(describe: Callable[[], dict[str, Any]]) -> None:
    silent = [
        f"{name}.{option.name}"
        for name, part in describe().items()
        for option in part.options
        if not option.meaning
    ]
    assert silent == []


def test_every_option_of_a_suite_says_what_it_means() -> None:
    silent = [
        f"{suite.kind}.{option.name}"
        for suite in suites()
        for option in list_options(suite.options)
        if not option.meaning
    ]
    assert silent == []


def test_an_editor_shows_the_meanings() -> None:
    keys = make_json_schema("gatemark.pack/1")["$defs"]["SuiteSpec"]["properties"]
    assert keys["weight"]["description"].startswith("Share in the bench score")
    assert keys["kind"]["description"].startswith("Kind of suite")
