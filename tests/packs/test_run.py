"""Packs run for real: Python and command targets, crashes, resumption, sealing, judging again."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from tests.forked import Forked, run_forked

Run = Callable[..., Any]

APP = """
import pathlib, time

def right(text):
    return {"output": text.upper(), "confidence": 0.9}

def worse(text):
    number = int(text.split()[-1])
    return {"output": text if number % 10 == 0 else text.upper(), "confidence": 0.9}

def crashing(text):
    if text.endswith(" 7"):
        raise RuntimeError("no sevens today")
    return {"output": text.upper(), "confidence": 0.9}

def slow(text):
    with open(pathlib.Path(__file__).parent / "calls.log", "a") as log:
        log.write(text + "\\n")
    time.sleep(0.01)
    return {"output": text.upper(), "confidence": 0.9}

def chatty(text):
    print("thinking about", text)
    return {"output": text.upper(), "confidence": 0.9}

def hanging(text):
    if text.endswith(" 7"):
        time.sleep(3600)
    return {"output": text.upper(), "confidence": 0.9}

def garbage(text):
    return {"output": float("nan")}

def endless(text):
    return {"output": "x" * 10_000_000}
"""

PACK = """
gatemark: 1
name: shouting
version: 1
asset: {{kind: prompt, name: shouting}}
score_min: 0.9
regression_max: {regression_max}
required_suites: [golden]
suites:
  - id: golden
    kind: golden
    weight: {weight}
    min: 0.85
    dataset: golden.jsonl
    slices: [parity]
{more}targets:
  candidate: {candidate}
  baseline: {baseline}
"""
RECORDED = "{recorded: recorded.jsonl}"
CALIBRATION = "  - {id: calib, kind: calibration, weight: 0.2, from: golden}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    rows = [
        {
            "id": f"r{n:03d}",
            "input": f"say {n}",
            "target": f"SAY {n}",
            "tags": {"parity": "odd" if n % 2 else "even"},
        }
        for n in range(200)
    ]
    (tmp_path / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def pack(
    folder: Path,
    *,
    candidate: str = '{python: "app:right"}',
    baseline: str = '{python: "app:right"}',
    more: str = "",
    regression_max: float = 0.02,
    name: str = "pack.yaml",
) -> Path:
    path = folder / name
    path.write_text(
        PACK.format(
            candidate=candidate,
            baseline=baseline,
            more=more,
            weight=1.0 if not more else 0.8,
            regression_max=regression_max,
        )
    )
    return path


def findings(result: dict[str, Any]) -> dict[str, str]:
    return {finding["rule"]: finding["verdict"] for finding in result["findings"]}


def run(gatemark: Run, folder: Path, path: Path, *more: object) -> Any:
    return gatemark("run", path, "--store", folder / "store", "--json", *more)


def test_equal_arms_pass_and_the_result_is_kept(gatemark: Run, folder: Path) -> None:
    ran = run(gatemark, folder, pack(folder))
    assert ran.code == 0
    listed = gatemark("list", "--store", folder / "store", "--json").json
    assert [line["id"] for line in listed] == [ran.json["id"]]
    assert ran.json["bench"]["value"] == 1.0
    assert ran.json["regression"]["value"] == 0.0
    assert {blob["name"] for blob in ran.json["blobs"]} == {
        "targets.json",
        "golden.candidate.jsonl",
        "golden.baseline.jsonl",
        "golden.rows.jsonl",
        "pack.json",
    }
    assert not list((folder / "store" / "runs").iterdir())


def test_a_worse_candidate_fails_for_its_regression(gatemark: Run, folder: Path) -> None:
    ran = run(gatemark, folder, pack(folder, candidate='{python: "app:worse"}'))
    assert ran.code == 1
    states = findings(ran.json)
    assert states["golden.regression"] == "fail"
    assert states["golden.floor"] == "pass"
    (told,) = [text for text in ran.json["blockers"] if text.startswith("golden.regression")]
    assert told.startswith("golden.regression must be <= 0.02, got 0.1 [0.0")
    assert told.endswith("(n=200); all of it is beyond the bound")
    tables = {e["title"]: e for e in ran.json["figures"] if e["type"] == "table"}
    worse = tables["golden: what got worse"]
    assert worse["total_rows"] == 20
    assert worse["rows"][0][0] == "r000"
    assert [row[1] for row in tables["golden by parity"]["rows"]] == [100, 100]


def test_the_same_run_at_another_time_has_the_same_id(gatemark: Run, folder: Path) -> None:
    samples = run(gatemark, folder, pack(folder)).json
    blob = next(b for b in samples["blobs"] if b["name"] == "golden.candidate.jsonl")
    hexadecimal = blob["digest"].removeprefix("sha256:")
    stored = folder / "store" / "blobs" / hexadecimal[:2] / hexadecimal
    (folder / "recorded.jsonl").write_bytes(stored.read_bytes())
    path = pack(folder, candidate=RECORDED, baseline=RECORDED)
    one = run(gatemark, folder, path).json
    two = gatemark("run", path, "--store", folder / "other", "--json").json
    assert one["id"] == two["id"]
    assert one["stamp"] != two["stamp"]


def test_errors_stay_in_the_denominator_and_hold_the_verdict(gatemark: Run, folder: Path) -> None:
    ran = run(gatemark, folder, pack(folder, candidate='{python: "app:crashing"}'))
    assert ran.code == 3
    numbers = {(m["name"], m["scope"]): m for m in ran.json["measurements"]}
    assert numbers["score", "golden"]["n"] == 200
    assert numbers["score", "golden"]["value"] == pytest.approx(199 / 200)
    assert numbers["error_rate", "golden"]["value"] == pytest.approx(1 / 200)
    assert findings(ran.json)["golden.errors"] == "fail"
    assert numbers["error_rate", "golden"]["caveats"] == [
        "1 crash, such as r007: app:crashing raised RuntimeError: no sevens today (app.py:13)"
    ]
    assert gate(gatemark, folder, ran.json["id"]).json["id"] == ran.json["id"]


def gate(gatemark: Run, folder: Path, result: str, name: str = "pack.yaml") -> Any:
    place = ("--pack", folder / name, "--store", folder / "store")
    return gatemark("gate", result, *place, "--json")


def test_answers_that_one_scorer_could_not_read_are_answers_to_another(
    gatemark: Run, folder: Path
) -> None:
    path = pack(folder)
    text = path.read_text()
    path.write_text(text.replace("    slices", "    scorer: choice\n    slices"))
    unread = run(gatemark, folder, path)
    assert findings(unread.json)["golden.errors"] == "fail"
    (folder / "other.yaml").write_text(text)
    again = gate(gatemark, folder, unread.json["id"], "other.yaml")
    assert again.code == 0


def test_a_baseline_that_crashes_cannot_make_a_worse_candidate_pass(
    gatemark: Run, folder: Path
) -> None:
    (folder / "app.py").write_text(
        APP
        + """
def crashing_where_it_matters(text):
    if int(text.split()[-1]) % 10 == 0:
        raise RuntimeError("no tens today")
    return {"output": text.upper(), "confidence": 0.9}

def always_crashing(text):
    raise RuntimeError("not today")
"""
    )
    worse = '{python: "app:worse"}'
    lenient = "    errors_max: 0.2\n"
    cases = {
        ("app:crashing_where_it_matters", ""): (1, "fail"),
        ("app:crashing_where_it_matters", lenient): (1, "pass"),
        ("app:always_crashing", ""): (3, "fail"),
    }
    for version, ((baseline, more), (code, errors)) in enumerate(cases.items(), start=1):
        path = pack(folder, candidate=worse, baseline=f'{{python: "{baseline}"}}')
        text = path.read_text().replace("    slices", more + "    slices")
        path.write_text(text.replace("version: 1\n", f"version: {version}\n"))
        ran = run(gatemark, folder, path)
        assert ran.code == code
        assert findings(ran.json)["golden.baseline_errors"] == errors
        assert findings(ran.json)["golden.regression"] != "pass"


def test_a_limited_run_never_passes_whatever_is_tried(gatemark: Run, folder: Path) -> None:
    path = pack(folder)
    path.write_text(path.read_text().replace("    slices", "    errors_max: 0.9\n    slices"))
    limited = run(gatemark, folder, path, "--limit", 150)
    assert limited.code == 3
    again = gatemark(
        "gate", limited.json["id"], "--pack", path, "--store", folder / "store", "--json"
    )
    assert (again.code, again.json["id"]) == (3, limited.json["id"])
    waivers = folder / "waivers.yaml"
    waivers.write_text(
        "".join(
            f"- {{rule: {rule}, owner: me, reason: hurry, expires_at: 2099-01-01T00:00:00Z}}\n"
            for rule in ("run.whole", "evidence.complete")
        )
    )
    waived = run(gatemark, folder, path, "--limit", 150, "--waivers", waivers)
    assert waived.code == 2
    assert "run.whole cannot be waived" in waived.err
    baseline = run(gatemark, folder, path, "--baseline", limited.json["id"])
    assert baseline.code == 3
    assert "was limited to 150 items per suite" in baseline.err
    shorter = run(gatemark, folder, path, "--baseline", limited.json["id"], "--limit", 150)
    assert findings(shorter.json)["run.whole"] == "inconclusive"


def test_answers_without_a_confidence_hold_a_calibration_suite_open(
    gatemark: Run, folder: Path
) -> None:
    (folder / "app.py").write_text(
        APP
        + """
def shy(text):
    number = int(text.split()[-1])
    return {"output": text.upper(), "confidence": 0.9 if number % 10 else None}
"""
    )
    ran = run(gatemark, folder, pack(folder, candidate='{python: "app:shy"}', more=CALIBRATION))
    assert ran.code == 3
    assert findings(ran.json)["calib.judged"] == "fail"
    assert "calib.unjudged_rate must be <= 0, got 0.1 (n=200)" in ran.json["blockers"]


def test_a_waived_step_is_not_shown_as_passed(gatemark: Run, folder: Path) -> None:
    waivers = folder / "waivers.yaml"
    waivers.write_text(
        "- {rule: golden.regression, owner: me, reason: known, expires_at: 2099-01-01T00:00:00Z}\n"
    )
    ran = run(
        gatemark,
        folder,
        pack(folder, candidate='{python: "app:worse"}'),
        "--waivers",
        waivers,
    )
    assert ran.code == 0
    (gate,) = [e for e in ran.json["figures"] if e["title"] == "Gate"]
    assert {row[0]: row[1] for row in gate["rows"]}["2 regression"] == "waived"


@pytest.mark.parametrize("target", ["garbage", "endless"])
def test_replies_that_cannot_be_kept_are_errors(gatemark: Run, folder: Path, target: str) -> None:
    ran = run(gatemark, folder, pack(folder, candidate=f'{{python: "app:{target}"}}'))
    assert ran.code == 1
    numbers = {(m["name"], m["scope"]): m["value"] for m in ran.json["measurements"]}
    assert numbers["error_rate", "golden"] == 1.0
    assert numbers["score", "golden"] == 0.0


def test_a_limited_run_never_passes(gatemark: Run, folder: Path) -> None:
    ran = run(gatemark, folder, pack(folder), "--limit", 150)
    assert ran.code == 3
    assert findings(ran.json)["evidence.complete"] == "fail"


def test_a_limit_that_leaves_nothing_out_never_passes_either(gatemark: Run, folder: Path) -> None:
    ran = run(gatemark, folder, pack(folder), "--limit", 1000)
    assert ran.code == 3
    assert findings(ran.json)["evidence.complete"] == "pass"
    assert findings(ran.json)["run.whole"] == "inconclusive"


def test_without_a_confidence_there_is_no_bench(gatemark: Run, folder: Path) -> None:
    (folder / "app.py").write_text(APP.replace(', "confidence": 0.9', ""))
    ran = run(gatemark, folder, pack(folder, more=CALIBRATION))
    assert ran.code == 3
    assert ran.json["bench"]["value"] is None
    assert "calib" in ran.json["bench"]["reason"]["text"]


def test_calibration_scores_one_minus_ece(gatemark: Run, folder: Path) -> None:
    ran = run(gatemark, folder, pack(folder, more=CALIBRATION, regression_max=0.05))
    numbers = {(m["name"], m["scope"]): m["value"] for m in ran.json["measurements"]}
    assert numbers["ece", "calib"] == pytest.approx(0.1)
    assert numbers["score", "calib"] == pytest.approx(0.9)
    assert ran.json["bench"]["value"] == pytest.approx(0.8 + 0.2 * 0.9)


def test_a_command_target_answers_over_pipes(gatemark: Run, folder: Path) -> None:
    (folder / "shout.py").write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    call = json.loads(line)\n"
        "    print(json.dumps({'id': call['id'], 'output': call['input'].upper()}), flush=True)\n"
    )
    target = f'{{command: ["{sys.executable}", "shout.py"]}}'
    assert run(gatemark, folder, pack(folder, candidate=target), "-j", 2).code == 0


def test_no_baseline_must_be_said_and_is_shown(gatemark: Run, folder: Path) -> None:
    ran = run(gatemark, folder, pack(folder, baseline="none"))
    assert ran.code == 0
    assert ran.json["regression"]["reason"]["text"] == "the pack says that there is no baseline"
    assert "golden.regression" not in findings(ran.json)


def test_a_sealed_result_can_be_the_baseline(gatemark: Run, folder: Path) -> None:
    before = run(gatemark, folder, pack(folder)).json["id"]
    path = pack(folder, candidate='{python: "app:worse"}')
    ran = run(gatemark, folder, path, "--baseline", before)
    assert ran.code == 1
    assert ran.json["baseline"]["digest"]


def test_a_baseline_may_be_named_as_the_list_prints_it(gatemark: Run, folder: Path) -> None:
    first = run(gatemark, folder, pack(folder)).json
    shown = first["id"].removeprefix("sha256:")[:12]
    assert shown in gatemark("list", "--store", folder / "store").out
    ran = run(gatemark, folder, pack(folder), "--baseline", shown)
    assert ran.json["baseline"]["digest"] == first["candidate"]["digest"]


def test_judging_again_calls_no_target_and_may_decide_otherwise(
    gatemark: Run, folder: Path
) -> None:
    path = pack(folder, candidate='{python: "app:worse"}')
    first = run(gatemark, folder, path).json["id"]
    (folder / "app.py").unlink()
    lenient = pack(folder, candidate='{python: "app:worse"}', regression_max=0.2, name="other.yaml")
    again = gatemark("gate", first, "--pack", lenient, "--store", folder / "store", "--json")
    assert again.code == 0
    assert (
        again.json["candidate"]
        == gatemark("show", first, "--store", folder / "store", "--json").json["candidate"]
    )
    same = gatemark("gate", first, "--pack", path, "--store", folder / "store", "--json")
    assert same.code == 1


def test_other_data_cannot_be_compared(gatemark: Run, folder: Path) -> None:
    path = pack(folder)
    first = run(gatemark, folder, path).json["id"]
    rows = (folder / "golden.jsonl").read_text().splitlines()[1:]
    (folder / "golden.jsonl").write_text("".join(row + "\n" for row in rows))
    ran = gatemark("gate", first, "--pack", path, "--store", folder / "store")
    assert ran.code == 3
    assert "only in the pack: golden.jsonl@sha256:" in ran.err


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda f: (f / "golden.jsonl").unlink(), "No such file"),
        (lambda f: (f / "app.py").unlink(), "app"),
        (lambda f: (f / "golden.jsonl").write_text('{"id": "a"}\n'), "golden.jsonl:1"),
    ],
)
def test_what_a_pack_lacks_is_named_and_nothing_is_sealed(
    gatemark: Run, folder: Path, change: Callable[[Path], object], complaint: str
) -> None:
    path = pack(folder)
    change(folder)
    ran = run(gatemark, folder, path)
    assert (ran.code, ran.out) == (2, "")
    assert complaint in ran.err
    assert not (folder / "store" / "gatemark.sqlite3").exists()


def test_a_killed_run_resumes_without_repeating_a_call(gatemark: Run, folder: Path) -> None:
    path = pack(folder, candidate='{python: "app:slow"}', baseline="none")
    command = ("run", path, "--store", folder / "store", "--resume", "--json")
    log = folder / "calls.log"
    kills = 0
    while kills < 6:
        process = Forked(command)
        seen = len(log.read_text().splitlines()) if log.exists() else 0
        while process.poll() is None:
            if log.exists() and len(log.read_text().splitlines()) > seen + 11:
                process.kill()
                kills += 1
                break
            time.sleep(0.01)
        assert process.finish().returncode == -signal.SIGKILL
    final = run_forked(*command)
    assert final.returncode == 0
    calls = log.read_text().splitlines()
    assert len(set(calls)) == 200
    assert len(calls) - 200 <= kills
    names = {blob["name"] for blob in json.loads(final.stdout)["blobs"]}
    assert names == {"golden.candidate.jsonl", "golden.rows.jsonl", "pack.json", "targets.json"}


def test_lint_names_errors_and_doubts(gatemark: Run, folder: Path) -> None:
    good = gatemark("lint", pack(folder, regression_max=0.01))
    assert good.code == 0
    assert "no errors" in good.out
    blind = gatemark(
        "lint",
        pack(folder, more=CALIBRATION.replace("from: golden", "dataset: gone.jsonl")),
    )
    assert blind.code == 2
    assert "gone.jsonl" in blind.err
    unknown = gatemark("lint", pack(folder, candidate='{phyton: "app:right"}'))
    assert unknown.code == 2
    assert "did you mean" in unknown.err


def test_lint_warns_of_a_margin_that_the_data_cannot_judge(gatemark: Run, folder: Path) -> None:
    ran = gatemark("lint", pack(folder, regression_max=0.01), "--json")
    assert ran.code == 0
    (warning,) = [found for found in ran.json["warnings"] if "regression_max" in found]
    assert (
        "200 items cannot show that an identical candidate stays within regression_max" in warning
    )
    assert "it takes 300" in warning
    assert not any(
        "regression_max" in found
        for found in gatemark("lint", pack(folder), "--json").json["warnings"]
    )


def test_init_writes_a_pack_that_fails_until_it_is_mended_as_told(
    gatemark: Run, tmp_path: Path
) -> None:
    told = gatemark("init", tmp_path / "evals")
    assert told.code == 0
    path = tmp_path / "evals" / "pack.yaml"
    assert gatemark("lint", path).code == 0
    document = json.loads((tmp_path / "evals" / "pack.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(document)
    written = yaml.safe_load(path.read_text())
    assert not list(validator.iter_errors(written))
    for wrong in ({**written, "score_mni": 1}, {**written, "suites": 3}, {}):
        assert list(validator.iter_errors(wrong))
    failed = run(gatemark, tmp_path, path)
    assert (failed.code, "golden.score must be >= 0.9, got 0.77" in failed.out) == (1, True)
    (mended,) = (line.strip() for line in told.err.splitlines() if "FORGOTTEN" in line)
    sorter = tmp_path / "evals" / "sorter.py"
    name = mended.partition(" = ")[0]
    lines = [mended if line.startswith(name) else line for line in sorter.read_text().splitlines()]
    sorter.write_text("\n".join(lines))
    ran = run(gatemark, tmp_path, path, "-o", tmp_path / "report.html")
    assert ran.code == 0
    assert gatemark("init", tmp_path / "evals").code == 1


def test_what_a_target_prints_does_not_reach_standard_output(gatemark: Run, folder: Path) -> None:
    ran = run(gatemark, folder, pack(folder, candidate='{python: "app:chatty"}'))
    assert ran.code == 0
    assert "thinking about" in ran.err


def test_a_target_that_hangs_is_an_error_and_the_run_still_ends(folder: Path) -> None:
    path = pack(folder, candidate='{python: "app:hanging", timeout_s: 3}', baseline="none")
    done = run_forked("run", path, "--store", folder / "store", "--json", "-j", 4)
    assert done.returncode == 3
    numbers = {(m["name"], m["scope"]): m["value"] for m in json.loads(done.stdout)["measurements"]}
    assert numbers["error_rate", "golden"] == pytest.approx(1 / 200)


def test_an_interrupted_run_seals_nothing_and_resumes(folder: Path) -> None:
    path = pack(folder, candidate='{python: "app:slow"}', baseline="none")
    command = ("run", path, "--store", folder / "store", "--resume", "--json")
    process = Forked(command)
    log = folder / "calls.log"
    while not log.exists() or len(log.read_text().splitlines()) < 20:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    done = process.finish()
    assert (done.returncode, done.stdout) == (130, b"")
    assert done.stderr.decode().strip() == "gatemark: stopped"
    assert not (folder / "store" / "gatemark.sqlite3").exists()
    before = len(log.read_text().splitlines())
    assert run_forked(*command).returncode == 0
    assert len(log.read_text().splitlines()) - before <= 200 - before + 1
    before = len(log.read_text().splitlines())
    anew = [argument for argument in command if argument != "--resume"]
    assert run_forked(*anew).returncode == 0
    assert len(log.read_text().splitlines()) - before == 200


def test_a_pack_may_add_rules_of_its_own(gatemark: Run, folder: Path) -> None:
    path = pack(folder, candidate='{python: "app:worse"}', regression_max=0.5)
    assert run(gatemark, folder, path).code == 0
    extra = "rules:\n  - {id: no-losses, metric: lost_count, scope: golden, op: '<=', bound: 0}\n"
    path.write_text(path.read_text().replace("version: 1\n", "version: 2\n") + extra)
    ran = run(gatemark, folder, path)
    assert ran.code == 1
    assert findings(ran.json)["no-losses"] == "fail"


def test_recorded_samples_given_by_hand_are_looked_up_from_here(
    gatemark: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    samples = [
        {
            "schema": "gatemark.sample/1",
            "id": f"r{n:03d}",
            "output": f"SAY {n}" if n else "wrong",
            "scores": {"exact": 1.0},
            "confidence": 0.9,
        }
        for n in range(200)
    ]
    (elsewhere / "cand.jsonl").write_text("".join(json.dumps(s) + "\n" for s in samples))
    monkeypatch.chdir(elsewhere)
    ran = run(gatemark, folder, pack(folder), "--candidate", "cand.jsonl")
    numbers = {(m["name"], m["scope"]): m["value"] for m in ran.json["measurements"]}
    assert numbers["score", "golden"] == pytest.approx(199 / 200)
