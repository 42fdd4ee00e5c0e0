from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatemark.release.review.open_stores import reviews_of
from gatemark.workspace import Workspace

Run = Callable[..., Any]
Write = Callable[..., Path]


def samples(arm: str, count: int) -> list[dict[str, Any]]:
    return [
        {
            "schema": "gatemark.sample/1",
            "id": f"q{at}",
            "input": f"question {at}",
            "output": f"{arm} {at}",
            "scores": {},
        }
        for at in range(count)
    ]


@pytest.fixture
def review(gatemark: Run, write_jsonl: Write, tmp_path: Path) -> Run:
    """Run a review command on a store of the test's own, with a review of 20 pairs in it."""
    new = write_jsonl("new.jsonl", samples("new", 20))
    old = write_jsonl("old.jsonl", samples("old", 20))

    def run(*arguments: object, actor: str = "bob") -> Any:
        where = ("--store", tmp_path / "store")
        who = () if "export" in arguments else ("--actor", actor)
        return gatemark("review", *arguments, *where, *who)

    made = run("create", "letters", "--candidate", new, "--baseline", old, actor="ada")
    assert made.code == 0, made.err
    assert "20 pairs, 0 gold" in made.out
    return run


def vote_for(review: Run, word: str) -> None:
    while (pair := review("next", "letters", "--json").json) is not None:
        choice = "a" if pair["a"].startswith(word) else "b"
        assert review("vote", "letters", choice, "--json").json["version"] == 1


@pytest.mark.parametrize(("word", "code"), [("new", 0), ("old", 1)])
def test_a_review_on_the_command_line_ends_with_the_verdict_as_its_code(
    review: Run, gatemark: Run, tmp_path: Path, word: str, code: int
) -> None:
    vote_for(review, word)
    closed = review("close", "letters", actor="ada")
    assert closed.code == code
    assert closed.out.startswith(("PASS", "FAIL")[code])
    assert review("export", "letters", "-o", tmp_path / "v.jsonl").code == 0
    scored = gatemark("score", "preference", tmp_path / "v.jsonl")
    assert scored.code == code


def test_the_sealed_key_is_nowhere_in_what_an_open_review_prints(
    review: Run, gatemark: Run, tmp_path: Path
) -> None:
    assert review("export", "letters").code == 1
    for command in (("status", "letters"), ("next", "letters")):
        told = review(*command, "--json").json
        assert "key" not in json.dumps(told)
    assert "hidden until" in review("status", "letters").out
    looked = review("status", "letters", "--look")
    assert (looked.code, looked.out) == (1, "")
    assert "hidden until" in looked.err
    assert gatemark("ledger", "verify", "--store", tmp_path / "store").code == 0


def test_an_open_review_is_not_closed_in_silence(review: Run) -> None:
    refused = review("close", "letters", actor="ada")
    assert refused.code == 1
    assert "still needs votes on 20 pairs" in refused.err
    vote_for(review, "new")
    assert review("vote", "letters", "a").code == 2


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("create", "letters", "--candidate", "nowhere.jsonl"), 2, "--baseline"),
        (
            ("create", "l", "--candidate", "a=x", "--candidate", "a=y", "--baseline", "z"),
            2,
            "names",
        ),
        (("create", "a b", "--candidate", "x", "--baseline", "y"), 2, "name"),
        (("create", "other", "--result", "sha256:00"), 2, "must be a result id"),
        (("create", "other", "--pack", "nothing"), 2, "no sealed result of a pack"),
        (("next", "nothing"), 2, "no review"),
        (("vote", "letters", "skip"), 2, "reason"),
        (("vote", "letters", "--reason", "x"), 2, "need an ANSWER"),
        (("vote", "letters", "a", "--token", "zz"), 2, "has not seen pair"),
        (("labels", "accept", "nothing"), 2, "no label set"),
    ],
)
def test_bad_calls_say_what_is_wrong(
    review: Run, arguments: tuple[str, ...], code: int, problem: str
) -> None:
    ran = review(*arguments)
    assert ran.code == code
    assert problem in ran.err


@pytest.mark.slow
def test_both_arms_of_a_pack_run_can_be_reviewed(
    gatemark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert gatemark("init", ".").code == 0
    assert gatemark("run", "pack.yaml").code in {0, 1, 3}
    several = gatemark("review", "create", "mail", "--pack", "parcel-mail")
    assert several.code == 2
    assert "name one with --suite" in several.err
    made = gatemark("review", "create", "mail", "--pack", "parcel-mail", "--suite", "golden")
    assert made.code == 0, made.err
    shown = gatemark("review", "next", "mail", "--json").json
    assert set(shown) >= {"token", "input", "a", "b"}
    plan = reviews_of(Workspace()).get("mail").plan
    assert plan.assets.keys() == {"candidate", "baseline"}
    assert gatemark("review", "create", "not", "--asset", "x@1", "--pack", "parcel-mail").code == 2
