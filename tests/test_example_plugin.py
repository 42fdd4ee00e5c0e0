"""A foreign distribution adds an exam, a measure, a scorer, an importer and a detector."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from tests.forked import Forked

import gatemark

EXAMPLE = Path(__file__).parents[1] / "examples" / "plugin"
PACK = """\
gatemark: 1
name: plugin
version: 1
asset: {kind: prompt, name: greeter}
score_min: 0.5
regression_max: 0.5
suites:
  - {id: greetings, kind: golden, weight: 0.5, min: 0.5, dataset: greetings.jsonl,
     scorer: starts_with}
  - {id: trips, kind: deliveries, weight: 0.5, min: 0.5, evidence: {trips: trips.jsonl},
     baseline_evidence: none, options: {min_share: 0.5}}
targets:
  candidate: {python: "answers:candidate"}
  baseline: none
"""
DRIFT = """\
gatemark_drift: 1
defaults: false
name: times
mode: corrected
watches:
- {metric: latency, detector: log_sigma, harm: up, window: 1d}
"""


class Scratch:
    """An environment with the example installed, and everything else that the tests have."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        environment = folder / "environment"
        venv.create(environment)
        self.python = environment / "bin" / "python"
        base = {"base": str(environment), "platbase": str(environment)}
        self.packages = Path(sysconfig.get_path("purelib", "venv", base))
        ours = [Path(gatemark.__file__).parents[1], sysconfig.get_path("purelib")]
        (self.packages / "ours.pth").write_text("".join(f"{place}\n" for place in ours))
        words = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
        self.run("-m", "pip", *words, str(EXAMPLE))

    def run(self, *words: object, code: int = 0) -> str:
        """Run Python in the environment; gives what it printed."""
        usual = {key: text for key, text in os.environ.items() if not key.startswith("PYTHON")}
        done = subprocess.run(
            [self.python, *map(str, words)],
            cwd=self.folder,
            env=usual,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout

    def gatemark(self, *words: object, code: int = 0) -> str:
        """Run a command of Gatemark that finds what is installed in the environment."""
        done = Forked(words, source=self.packages, folder=self.folder).finish()
        assert done.returncode == code, (words, done)
        return done.stdout.decode()

    def write(self, name: str, *rows: object) -> str:
        """Write records, one per line."""
        (self.folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return name


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    made = Scratch(tmp_path_factory.mktemp("plugin"))
    trips = [
        {"id": f"T{n}", "promised_minutes": 30, "minutes": 40 if n % 10 == 0 else 20}
        for n in range(100)
    ]
    made.write("trips.jsonl", *trips)
    return made


def test_the_exam_has_a_command_made_from_its_declaration(scratch: Scratch) -> None:
    # One command of the environment itself; the others are forked, with its packages.
    text = scratch.run("-m", "gatemark", "score", "deliveries", "--help")
    assert "--min-share" in text
    assert "Minimum share of trips on time." in text
    assert "deliveries" in scratch.gatemark("score", "--help")
    passed = scratch.gatemark("score", "deliveries", "trips.jsonl", "--min-share", "0.9", "--json")
    assert json.loads(passed)["on_time"] == 90
    scratch.gatemark("score", "deliveries", "trips.jsonl", code=1)
    scratch.gatemark("score", "deliveries", "trips.jsonl", "--grace-minutes", "10")
    scratch.gatemark("score", "deliveries", "nowhere.jsonl", code=2)


def test_the_command_may_take_more_than_the_options_of_the_exam(scratch: Scratch) -> None:
    assert "--strict" in scratch.gatemark("score", "deliveries", "--help")
    words = ("score", "deliveries", "trips.jsonl", "--min-share", "0.5")
    scratch.gatemark(*words)
    scratch.gatemark(*words, "--strict", code=1)


def test_drift_counts_points_from_files_of_the_exam(scratch: Scratch) -> None:
    trip = {"promised_minutes": 30, "courier": "north", "at": "2026-03-01T09:30:00Z"}
    rows = [{"id": f"T{n}", "minutes": 40 if n < 3 else 20, **trip} for n in range(10)]
    path = scratch.write("timed.jsonl", *rows)
    words = ("drift", "derive", "--store", "points", "--now", "2026-03-05T00:00:00Z")
    found = json.loads(scratch.gatemark(*words, "--points", f"deliveries={path}", "--json"))
    assert found["pushed"]["added"] == 1
    scratch.gatemark(*words, "--points", f"nobody={path}", code=2)
    scratch.gatemark(*words, "--points", path, code=2)


def test_the_exam_is_sealed_and_derived_again(scratch: Scratch) -> None:
    words = ("--min-share", "0.9", "--seal", "--store", "sealed")
    scratch.gatemark("score", "deliveries", "trips.jsonl", *words)
    scratch.gatemark("ledger", "verify", "--rescore", "--store", "sealed")
    (blob,) = [
        path
        for path in (scratch.folder / "sealed" / "blobs").rglob("*")
        if path.is_file() and b"promised_minutes" in path.read_bytes()
    ]
    blob.chmod(0o600)
    blob.write_bytes(blob.read_bytes().replace(b'"minutes": 40', b'"minutes": 20'))
    scratch.gatemark("ledger", "verify", "--rescore", "--store", "sealed", code=4)


def test_the_exam_and_the_scorer_are_suites_of_a_pack(scratch: Scratch) -> None:
    (scratch.folder / "pack.yaml").write_text(PACK)
    (scratch.folder / "answers.py").write_text(
        "def candidate(question):\n    return f'Yes, {question}.'\n"
    )
    rows = [{"id": f"G{n}", "input": f"question {n}", "target": "yes"} for n in range(30)]
    scratch.write("greetings.jsonl", *rows)
    scratch.gatemark("lint", "pack.yaml")
    found = json.loads(scratch.gatemark("run", "pack.yaml", "--store", "packs", "--json"))
    scores = {(one["name"], one["scope"]): one["value"] for one in found["measurements"]}
    assert scores["score", "greetings"] == 1.0
    assert scores["score", "trips"] == 0.9
    scratch.gatemark("ledger", "verify", "--rescore", "--store", "packs")


def test_the_importer_reads_its_logs_and_checks_their_claims(scratch: Scratch) -> None:
    cases = [{"case": f"c{n}", "question": "q", "answer": "a", "grade": n % 2} for n in range(10)]
    scratch.write("log.json", {"tripbench": 1, "cases": cases, "passed": 5})
    scratch.gatemark("import", "log.json", "-o", "samples.jsonl")
    lines = (scratch.folder / "samples.jsonl").read_text().splitlines()
    assert [json.loads(line)["scores"]["grade"] for line in lines] == [0, 1] * 5


def test_a_drift_policy_may_name_the_detector(scratch: Scratch) -> None:
    (scratch.folder / "drift.yaml").write_text(DRIFT)
    assert "log_sigma" in scratch.gatemark("drift", "policy", "--policy", "drift.yaml")


def test_every_part_can_be_used_from_python(scratch: Scratch) -> None:
    script = """
import gatemark
from gatemark.release.drift.detectors.registry import detectors
from gatemark.evidence.measures import measures
from gatemark.evidence.record_schemas import schemas
from gatemark.samples.importer import importers
from gatemark.scorers.scorer import scorers

report = gatemark.score("deliveries", "trips.jsonl", min_share=0.9)
assert report.verdict == "pass", report.document
assert gatemark.score("deliveries", "trips.jsonl").verdict == "fail"
assert measures().get("on_time").finish(measures().get("on_time").zero())[0].value is None
assert "deliveries.trip/1" in schemas()
assert scorers().get("starts_with").known
assert importers().get("tripbench").sniff(b'{"tripbench": 1}', "log.json")
assert "value" in detectors().get("log_sigma").forms
"""
    scratch.run("-c", script)


def test_without_the_example_its_names_are_unknown() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gatemark", "score", "deliveries", "trips.jsonl"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "deliveries" in done.stderr
