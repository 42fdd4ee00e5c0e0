from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
Write = Callable[..., Path]


def lines(count: int, *, honesty: float, seed: int = 4) -> list[dict[str, Any]]:
    """Answers that come true as often as they say (honesty 1) or are too sure (below 1)."""
    draw = random.Random(seed)
    found = []
    for number in range(count):
        confidence = round(draw.uniform(0.5, 0.99), 2)
        is_right = draw.random() < 0.5 + (confidence - 0.5) * honesty
        found.append({"id": f"q{number}", "confidence": confidence, "correct": is_right})
    return found


def samples(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "schema": "gatemark.sample/1",
            "id": row["id"],
            "scores": {"exact": 1.0 if row["correct"] else 0.0},
            "confidence": row["confidence"],
            "output": "x",
        }
        for row in rows
    ]


def ece(gatemark: Run, path: Path) -> float:
    return float(gatemark("score", "calibration", path, "--json").json["ece"])


@pytest.mark.parametrize(("kind", "count"), [("temperature", 900), ("isotonic", 3000)])
def test_a_refit_that_helps_is_written_and_mends_samples(
    gatemark: Run, write_jsonl: Write, tmp_path: Path, kind: str, count: int
) -> None:
    rows = lines(count, honesty=0.4)
    path = write_jsonl("s.jsonl", samples(rows))
    out = tmp_path / "refit"
    ran = gatemark("calibration", "refit", path, "--kind", kind, "--out", out, "--json")
    assert ran.code == 0, ran.err
    assert ran.json["gain"][1] > 0
    mended = tmp_path / "mended.jsonl"
    done = gatemark("calibration", "apply", ran.json["map_file"], path, "-o", mended)
    assert done.out.startswith(f"{count} confidences mended")
    assert ece(gatemark, mended) < ece(gatemark, path) / 2
    same = gatemark("calibration", "refit", path, "--kind", kind, "--json").json
    assert same["map_digest"] == ran.json["map_digest"], "the same seed gives the same map"


def test_a_refit_that_does_not_help_changes_nothing(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    path = write_jsonl("c.jsonl", lines(900, honesty=1.0))
    ran = gatemark("calibration", "refit", path, "--out", tmp_path / "refit", "--json")
    assert (ran.code, ran.json["is_accepted"], ran.json["map_file"]) == (1, False, None)
    assert not (tmp_path / "refit").exists()


def test_too_few_items_cannot_be_judged(gatemark: Run, write_jsonl: Write) -> None:
    ran = gatemark("calibration", "refit", write_jsonl("c.jsonl", lines(60, honesty=0.2)))
    assert ran.code == 3
    assert "needs >= 100 items" in ran.out


def test_a_refit_drafts_a_version_and_leaves_the_live_one_alone(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    store = ("--store", tmp_path / "store")
    path = write_jsonl("c.jsonl", lines(900, honesty=0.4))
    refit = ("calibration", "refit", path, "--out", tmp_path / "refit", "--as", "sorter@1.1.0")
    stranger = gatemark(*refit, "--actor", "ann", *store)
    assert (stranger.code, "not registered" in stranger.err) == (1, True)
    gatemark("role", "grant", "root", "admin", "--actor", "root", *store)
    gatemark("role", "grant", "ann", "author", "--actor", "root", *store)
    gatemark(
        *("asset", "add", "sorter@1.0.0", "--kind", "classifier", "--actor", "ann", *store),
        *("--digest", "sha256:" + "1" * 64, "--pin", "model=m-1"),
    )
    ran = gatemark(*refit, "--actor", "ann", "--json", *store)
    assert ran.code == 0, ran.err
    assert ran.json["version"] == "sorter@1.1.0"
    assert "--as sorter@1.1.0" in ran.json["next_step"]
    told = gatemark("why", "sorter@1.1.0", "--json", *store).json
    assert told["stage"] == "draft"
    assert told["pins"]["model"] == "m-1"
    assert told["pins"]["tools"]["calibrator"] == ran.json["map_digest"]


def test_a_file_that_is_no_map_is_refused(gatemark: Run, write_jsonl: Write) -> None:
    path = write_jsonl("s.jsonl", samples(lines(3, honesty=1)))
    for bad in (path, path.with_name("none")):
        ran = gatemark("calibration", "apply", bad, path, "-o", path.with_name("out.jsonl"))
        assert ran.code == 2
        assert not path.with_name("out.jsonl").exists()
    empty = path.with_name("empty.json")
    empty.write_text(json.dumps({"schema": "gatemark.calibration_map/1"}))
    ran = gatemark("calibration", "apply", empty, path, "-o", path.with_name("out.jsonl"))
    assert "not a gatemark.calibration_map/1" in ran.err
