"""Runs that are shot at seeded moments and resumed, held against runs that nobody disturbed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.chaos.killed_runs import command_of, finish, furnish_run, record, shoot_run

Run = Callable[..., Any]

ITEMS = 600
OCCASION = {"id", "stamp", "started_at", "finished_at"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    furnish_run(tmp_path, ITEMS)
    return tmp_path


@pytest.mark.slow
def test_recorded_answers_give_one_id_however_often_the_run_was_killed(
    gatemark: Run, folder: Path
) -> None:
    arms = (
        *("--candidate", record(folder / "cand.jsonl", 1, ITEMS)),
        *("--baseline", record(folder / "base.jsonl", 2, ITEMS)),
    )
    calm = finish(command_of(folder, folder / "calm", *arms))
    shot_store = folder / "shot"
    command = command_of(folder, shot_store, *arms, "-j", 3)
    moments = [0, *sorted(random.Random(7).sample(range(1, 2 * ITEMS), 6)), 2 * ITEMS]
    hits = shoot_run(command, shot_store, moments)
    shot = finish(command)
    assert hits >= len(moments) - 2
    assert shot["id"] == calm["id"]
    listed = gatemark("list", "--store", shot_store, "--json").json
    assert [line["id"] for line in listed] == [calm["id"]]
    assert not list((shot_store / "runs").iterdir())


def _untimed(value: Any) -> Any:
    """A part of a result without its times, and without saying that it was resumed."""
    if isinstance(value, dict):
        own = {name: _untimed(item) for name, item in value.items() if name != "answered_at"}
        return {name: item for name, item in own.items() if "resumed" not in name}
    if not isinstance(value, list):
        return value
    return [_untimed(item) for item in value if not _is_of_the_run(item)]


def _is_of_the_run(item: Any) -> bool:
    if not isinstance(item, dict):
        return str(item).startswith("run.resumed")
    named = [str(item.get(key)) for key in ("name", "title", "id", "rule")]
    # The table of the gate counts the rule about what was resumed.
    return "Gate" in named or any(
        name.lower().startswith(("latency", "run.resumed")) for name in named
    )


@pytest.mark.slow
def test_a_killed_live_run_differs_by_its_times_and_a_caveat_and_is_judged_again_to_its_id(
    gatemark: Run, folder: Path
) -> None:
    calm = finish(command_of(folder, folder / "calm", "-j", 2))
    command = command_of(folder, folder / "shot", "-j", 2)
    hits = shoot_run(command, folder / "shot", sorted(random.Random(8).sample(range(1, ITEMS), 4)))
    shot = finish(command)
    assert hits == 4
    told = calm.keys() - OCCASION - {"blobs", "evidence", "policy_digest"}
    untimed = [{key: _untimed(result[key]) for key in told} for result in (shot, calm)]
    assert untimed[0] == untimed[1]
    assert [caveat for caveat in shot["caveats"] if "were reused (--resume)" in caveat]
    for name, result in (("calm", calm), ("shot", shot)):
        again = gatemark(
            *("gate", result["id"], "--pack", folder / "pack.yaml"),
            *("--store", folder / name, "--json"),
        )
        assert again.json["id"] == result["id"]
    answers = [_answers(folder / name, result) for name, result in (("calm", calm), ("shot", shot))]
    assert answers[0] == answers[1]
    assert len(answers[0]) == ITEMS


def _answers(store: Path, result: dict[str, Any]) -> list[dict[str, Any]]:
    """The samples a result keeps, without when each was given and how long it took."""
    (digest,) = (b["digest"] for b in result["blobs"] if b["name"] == "golden.candidate.jsonl")
    (path,) = store.glob(f"blobs/*/*{digest.removeprefix('sha256:')[2:]}*")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(row.pop("latency_ms") > 0 for row in rows)
    assert all(row.pop("answered_at") for row in rows)
    return rows
