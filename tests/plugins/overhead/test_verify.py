"""``gatemark overhead verify``: edited reports, other files, other policies."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gatemark.core.canonical import digest
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.plugins.overhead.arms import read_arm
from gatemark.plugins.overhead.costs import digest_schedule
from gatemark.plugins.overhead.parameters import OverheadParameters
from gatemark.plugins.overhead.verify import CHECKS, VerifyReportRequest, verify_overhead
from gatemark.workspace import Workspace

from .arms import loss_arm, ppl_pair, write

Run = Callable[..., Any]
Edit = Callable[[dict[str, Any]], Any]


NO, YES = False, True


def put(path: str, value: Any) -> Edit:
    """An edit that sets one value, by a dotted path."""

    def edit(report: dict[str, Any]) -> None:
        *way, last = path.split(".")
        place: Any = report
        for step in way:
            place = place[int(step)] if step.isdigit() else place[step]
        place[last] = value

    return edit


@pytest.fixture(scope="module")
def noisy_arms(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Two noisy arms as arguments; no test changes the files."""
    folder = tmp_path_factory.mktemp("noisy")
    draw = np.random.default_rng(4)
    bare = draw.gamma(40, 0.06, 200)
    guarded = bare + draw.normal(0.004, 0.002, 200)
    return [
        *("--bare", loss_arm(folder / "bare.jsonl", "bare", bare.tolist())),
        *("--guarded", loss_arm(folder / "guarded.jsonl", "guarded", guarded.tolist())),
    ]


@pytest.fixture(scope="module")
def printed() -> list[str]:
    """The report over the noisy arms, once a test has asked for it."""
    return []


@pytest.fixture
def made(
    gatemark: Run, noisy_arms: list[Any], printed: list[str]
) -> tuple[dict[str, Any], list[Any]]:
    """A true report over two noisy arms, and the arms as arguments."""
    if not printed:
        ran = gatemark("score", "overhead", *noisy_arms, "--json")
        assert ran.code == 0
        printed.append(ran.out)
    return json.loads(printed[0]), list(noisy_arms)


@pytest.fixture
def verify(gatemark: Run, tmp_path: Path) -> Run:
    def run(report: Any, *arguments: object) -> Any:
        path = tmp_path / "report.json"
        path.write_text(report if isinstance(report, str) else json.dumps(report))
        return gatemark("overhead", "verify", path, "--json", *arguments)

    return run


def test_a_true_report_agrees(made: Any, verify: Run) -> None:
    report, arms = made
    ran = verify(report, *arms)
    assert (ran.code, ran.json["agrees"], ran.json["verdict"]) == (0, True, "pass")
    assert set(ran.json["checks"]) == set(CHECKS)
    assert set(ran.json["checks"].values()) == {"pass"}


@pytest.mark.parametrize(
    ("edit", "check"),
    [
        (put("guard_overhead.overhead_ratio", 1.0), "value.ratio"),
        (put("guard_overhead.overhead_ratio", None), "value.ratio"),
        (put("guard_overhead.overhead_percent", 0.0), "value.ratio"),
        (put("guard_overhead.bare_ppl", 20.0), "value.bare"),
        (put("guard_overhead.guarded_ppl", 1.0), "value.guarded"),
        (put("guard_overhead.passed", NO), "flag.passed"),
        (put("guard_overhead.evaluated", NO), "flag.evaluated"),
        (put("validation.guard_overhead_acceptable", NO), "flag.guard_overhead_acceptable"),
        (put("verdict", "fail"), "verdict"),
        (put("guard_overhead.overhead_threshold", 0.05), "policy.budget"),
        (put("guard_overhead.tolerance", 0.1), "policy.budget"),
        (put("guard_overhead.mode", "interval"), "policy.mode"),
        (put("resolved_policy.settings.budget", 0.05), "policy.resolved"),
        (put("resolved_policy.rules.1.bound", 0.5), "policy.resolved"),
        (put("policy_digest", "sha256:" + "0" * 64), "policy.digest"),
        (put("auto.policy_digest", "sha256:" + "0" * 64), "policy.digest"),
        (put("policy_provenance.policy_digest", "x"), "policy.digest"),
        (put("policy_provenance.profile", "dev"), "policy.overrides"),
        (put("guard_overhead.interval.high", 0.001), "value.interval"),
        (put("guard_overhead.tail.worst", []), "value.tail"),
        (put("guard_overhead.errors", [{"check": "x", "message": "y"}]), "pairing"),
        (put("guard_overhead.schedule_digest", "sha256:00"), "pairing"),
        (put("meta.bare.snapshot_hash", "other"), "arm.bare"),
        (put("meta.guarded.digest", "sha256:00"), "arm.guarded"),
        (put("meta.device", "cuda"), "meta"),
        (put("axes.quality.overhead", 0.0), "axis.quality"),
        (put("axes.latency.state", "pass"), "axis.latency"),
        (put("axes.memory.reason", "quiet"), "axis.memory"),
        (put("score", 1.0), "value.score"),
        (put("findings.2.observed", 0.0), "findings"),
        (put("blockers", ["none"]), "words"),
        (put("guard_overhead.noise.reason", "quiet"), "value.noise"),
        (put("guard_overhead.windows", 400), "value.other"),
        (put("guard_overhead", "garbage"), "report.schema"),
        (put("guard_overhead.overhead_ratio", "banana"), "report.schema"),
        (put("skipped", YES), "report.schema"),
        (lambda report: report.pop("validation"), "report.schema"),
    ],
)
def test_an_edited_report_is_caught_under_a_stable_name(
    made: Any, verify: Run, edit: Edit, check: str
) -> None:
    report, arms = made
    edit(report)
    ran = verify(report, *arms)
    assert (ran.code, ran.json["agrees"]) == (4, False)
    assert ran.json["checks"][check] == "fail"
    assert check in {found["check"] for found in ran.json["disagreements"]}


def test_every_name_of_a_check_can_fail(made: Any) -> None:
    tried = {
        mark.args[1][index][1]
        for mark in test_an_edited_report_is_caught_under_a_stable_name.pytestmark  # type: ignore[attr-defined]
        for index in range(len(mark.args[1]))
    }
    elsewhere = {
        *("policy.overrides", "policy.provenance", "arm.noise", "costs"),
        # With a second guarded run: targets/test_runner.py.
        *("arm.repeat", "value.repeat"),
        # With install times and single guards in the costs: test_costs.py.
        *("axis.install", "value.guards"),
    }
    assert tried | elsewhere == set(CHECKS)


def test_a_budget_edited_together_with_every_digest_is_caught(made: Any, verify: Run) -> None:
    report, arms = made
    report["resolved_policy"]["settings"]["budget"] = 0.4
    report["resolved_policy"]["rules"][1]["bound"] = 0.4 + 1e-12
    report["guard_overhead"]["overhead_threshold"] = 0.4
    forged = digest(report["resolved_policy"])
    for edit in ("policy_digest", "auto.policy_digest", "policy_provenance.policy_digest"):
        put(edit, forged)(report)
    ran = verify(report, *arms)
    assert ran.code == 4
    assert ran.json["checks"]["policy.budget"] == ran.json["checks"]["policy.resolved"] == "fail"


@pytest.mark.parametrize(
    ("guarded", "ending"), [(10.05, (0, "pass")), (10.2, (1, "fail")), (5.0, (3, "inconclusive"))]
)
def test_a_true_report_ends_as_its_recomputed_verdict(
    gatemark: Run, verify: Run, tmp_path: Path, guarded: float, ending: Any
) -> None:
    arms = ppl_pair(tmp_path, 10, guarded)
    ran = verify(gatemark("score", "overhead", *arms, "--json").json, *arms)
    assert (ran.code, ran.json["verdict"]) == ending
    assert ran.json["agrees"] is True


@pytest.mark.parametrize(
    ("edit", "check"),
    [
        (put("axes.memory.overhead", 0.0), "axis.memory"),
        (put("guard_overhead.noise.given", YES), "value.noise"),
        (put("guard_overhead.noise.floor", 0.0), "value.noise"),
        (put("guard_overhead.tolerance", 0.0), "policy.budget"),
        (put("guard_overhead.tolerance", 2e-12), "policy.budget"),
        (put("findings.2.bound", 0.01), "findings"),
        (put("axes.quality.budget", 0.01 + 1e-13), "axis.quality"),
        (put("guard_overhead.tokens", 401), "value.other"),
    ],
)
def test_small_and_invented_numbers_are_caught_too(
    made: Any, verify: Run, edit: Edit, check: str
) -> None:
    report, arms = made
    edit(report)
    ran = verify(report, *arms)
    assert (ran.code, ran.json["checks"][check]) == (4, "fail")


def test_costs_are_found_beside_the_report_or_asked_for(
    gatemark: Run, made: Any, verify: Run, tmp_path: Path
) -> None:
    _, arms = made
    costs = tmp_path / "costs.json"
    costs.write_text(json.dumps({"schedule_digest": "sha256:00", "passes": [], "arms": {}}))
    report = gatemark("score", "overhead", *arms, "--costs", costs, "--json").json
    assert verify(report, *arms).code == 0
    put("meta.costs.digest", "sha256:00")(report)
    forged = verify(report, *arms)
    assert (forged.code, forged.json["checks"]["costs"]) == (4, "fail")
    costs.unlink()
    ran = verify(report, *arms)
    assert (ran.code, ran.out) == (2, "")
    assert "the report has time or memory; give the file with --costs" in ran.err


def test_a_budget_of_time_without_costs_can_be_verified(
    gatemark: Run, made: Any, verify: Run, tmp_path: Path
) -> None:
    _, arms = made
    policy = tmp_path / "policy.yaml"
    policy.write_text("overrides: [{field: latency_budget, value: 0.5}]\n")
    scored = gatemark("score", "overhead", *arms, "--policy", policy, "--json")
    ran = verify(scored.json, *arms)
    assert (scored.code, ran.code, ran.json["agrees"]) == (3, 3, True)


def test_a_report_about_a_missing_arm_can_be_verified(
    gatemark: Run, made: Any, verify: Run, tmp_path: Path
) -> None:
    whole, arms = made
    report = gatemark("score", "overhead", *arms[:2], "--json").json
    ran = verify(report, *arms[:2])
    assert (ran.code, ran.json["agrees"], ran.json["verdict"]) == (3, True, "inconclusive")
    assert verify(report, *arms).code == 4
    for one_arm, lacking in ((arms[:2], "guarded"), (arms[2:], "bare")):
        refused = verify(whole, *one_arm)
        assert (refused.code, refused.out) == (2, "")
        assert f"uses a {lacking} arm; give the file with --{lacking}" in refused.err
    gone = gatemark("score", "overhead", *arms, "--noise", tmp_path / "gone.jsonl", "--json")
    ran = verify(gone.json, *arms)
    assert (gone.code, ran.code, ran.json["agrees"]) == (3, 3, True)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The place of every value in a document that holds no other values."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found: list[tuple[Any, ...]] = []
    for key, item in inner:
        if isinstance(item, dict | list) and item:
            found.extend(leaves(item, (*path, key)))
        else:
            found.append((*path, key))
    return found


def another(value: Any) -> Any:
    """A value of the same type that says something else."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    return 0.5 if value is None else [*value, "x"] if isinstance(value, list) else {"x": 1}


@pytest.fixture
def rich(gatemark: Run, tmp_path: Path) -> tuple[dict[str, Any], dict[str, Path]]:
    """A report that fills as many fields as one report can, and the files it rests on."""
    draw = np.random.default_rng(4)
    bare = draw.gamma(40, 0.06, 9)
    guarded = bare + draw.normal(0.004, 0.002, 9)
    files = {
        "bare": loss_arm(tmp_path / "b.jsonl", "bare", bare.tolist()),
        "guarded": loss_arm(tmp_path / "g.jsonl", "guarded", guarded.tolist(), guards=["clip"]),
        "noise": loss_arm(tmp_path / "n.jsonl", "bare", (bare + 1e-6).tolist()),
        "costs": tmp_path / "c.json",
    }
    schedule = digest_schedule(read_arm("bare", str(files["bare"]), ReadingChoices()))
    arm = {"latency_ms": [[2.0] * 9], "memory_reason": None, "repeat_shift_max": 0.0}
    sides = {"bare": arm | {"peak_memory_bytes": 9}, "guarded": arm | {"peak_memory_bytes": 10}}
    files["costs"].write_text(
        json.dumps({"schedule_digest": schedule, "passes": [], "arms": sides})
    )
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "profile: dev\noverrides:\n- {field: profile, value: dev, reason: r, owner: o, "
        "evidence: e}\n- {field: budget, value: 0.06, reason: r, owner: o, "
        "evidence: e, expires_at: 2999-01-01T00:00:00Z}\n- {field: latency_budget, value: 1}\n"
    )
    flags = [text for role, path in files.items() for text in (f"--{role}", path)]
    return gatemark("score", "overhead", *flags, "--policy", policy, "--json").json, files


@pytest.mark.slow
def test_no_value_of_a_report_can_be_changed_or_left_out_unnoticed(
    rich: Any, tmp_path: Path
) -> None:
    report, files = rich
    path = tmp_path / "r.json"
    request = VerifyReportRequest(
        report=str(path),
        paths={role: str(file) for role, file in files.items()},
        policy=OverheadParameters(),
        accept_overrides=True,
    )

    def exit_code(document: Any) -> int:
        path.write_text(json.dumps(document))
        return verify_overhead(Workspace(), request, ReadingChoices()).exit_code

    assert exit_code(report) == 0
    places = [
        place
        for place in leaves(report)
        if place != ("result_id",) and (place[0], place[-1]) != ("meta", "file")
    ]
    assert len(places) > 200
    unnoticed = []
    written = json.dumps(report)
    for place in places:
        for is_removed in (False, True):
            edited = json.loads(written)
            inner = edited
            for step in place[:-1]:
                inner = inner[step]
            if is_removed:
                del inner[place[-1]]
            else:
                inner[place[-1]] = another(inner[place[-1]])
            if exit_code(edited) != 4:
                unnoticed.append((*place, "removed" if is_removed else "changed"))
    assert unnoticed == []


def test_a_failed_report_that_claims_to_pass_is_caught(
    gatemark: Run, verify: Run, tmp_path: Path
) -> None:
    arms = ppl_pair(tmp_path, 10, 20)
    report = gatemark("score", "overhead", *arms, "--json").json
    for edit in (
        put("verdict", "pass"),
        put("guard_overhead.passed", YES),
        put("validation.guard_overhead_acceptable", YES),
        put("guard_overhead.overhead_ratio", 1.0),
    ):
        edit(report)
    ran = verify(report, *arms)
    assert (ran.code, ran.json["verdict"], ran.json["stored_verdict"]) == (4, "fail", "pass")


def test_a_report_over_other_windows_is_caught(made: Any, verify: Run, tmp_path: Path) -> None:
    report, arms = made
    text = arms[3].read_text()
    changed = write(tmp_path / "other.jsonl", list(text.splitlines()[:-1]))
    ran = verify(report, *arms[:2], "--guarded", changed)
    assert (ran.code, ran.json["checks"]["arm.guarded"]) == (4, "fail")
    assert ran.json["verdict"] == "inconclusive"


def test_an_unpaired_report_can_be_true(gatemark: Run, verify: Run, tmp_path: Path) -> None:
    arms: list[Any] = [
        *("--bare", loss_arm(tmp_path / "b.jsonl", "bare", [2.0] * 3)),
        *("--guarded", loss_arm(tmp_path / "g.jsonl", "guarded", [2.0] * 4)),
    ]
    report = gatemark("score", "overhead", *arms, "--json").json
    moved = [shutil.move(arms[at], tmp_path / f"moved{at}.jsonl") for at in (1, 3)]
    (tmp_path / "elsewhere").mkdir()
    places = [
        shutil.move(path, tmp_path / "elsewhere" / name)
        for path, name in zip(moved, ("b.jsonl", "g.jsonl"), strict=True)
    ]
    ran = verify(report, "--bare", places[0], "--guarded", places[1])
    assert (ran.code, ran.json["agrees"]) == (3, True)


def test_the_verifier_may_bring_its_own_policy(made: Any, verify: Run, tmp_path: Path) -> None:
    report, arms = made
    own = tmp_path / "own.yaml"
    own.write_text("profile: release\n")
    same = verify(report, *arms, "--policy", own)
    assert (same.code, same.json["policy_source"]) == (0, "file")
    own.write_text("overrides: [{field: budget, value: 0.001}]\n")
    stricter = verify(report, *arms, "--policy", own)
    assert (stricter.code, stricter.json["verdict"]) == (4, "fail")
    assert stricter.json["checks"]["policy.budget"] == "fail"
    profiled = verify(report, *arms, "--profile", "release")
    assert (profiled.code, profiled.json["policy_source"]) == (0, "profile")
    refused = verify(report, *arms, "--profile", "dev")
    assert (refused.code, "profile dev is looser than release" in refused.err) == (2, True)
    assert verify(report, *arms, "--profile", "dev", "--accept-overrides").code == 4


def test_a_looser_profile_is_refused_unless_accepted(
    gatemark: Run, verify: Run, tmp_path: Path
) -> None:
    arms = ppl_pair(tmp_path, 10, 10.2)
    why = ["--profile", "dev", "--reason", "pilot", "--owner", "ada", "--evidence", "runs/7"]
    report = gatemark("score", "overhead", *arms, *why, "--json").json
    assert report["verdict"] == "pass"
    refused = verify(report, *arms)
    assert (refused.code, refused.json["checks"]["policy.overrides"]) == (4, "fail")
    assert verify(report, *arms, "--accept-overrides").code == 0
    # Without its reason it is refused, even if overrides are accepted.
    put("policy_provenance.overrides", [])(report)
    for more in ([], ["--accept-overrides"]):
        refused = verify(report, *arms, *more)
        assert (refused.code, refused.json["checks"]["policy.overrides"]) == (4, "fail")


def name_rules(report: dict[str, Any], version: object) -> None:
    """Write another version of the rules into a report, and make its digests fit."""
    put("resolved_policy.settings.overhead_rules", version)(report)
    for path in ("policy_digest", "auto.policy_digest", "policy_provenance.policy_digest"):
        put(path, digest(report["resolved_policy"]))(report)


def test_a_report_names_the_rules_that_decided_it(made: Any) -> None:
    assert made[0]["resolved_policy"]["settings"]["overhead_rules"] == 1


@pytest.mark.parametrize("own_policy", [[], ["--profile", "release"]])
def test_a_report_of_other_rules_is_not_decided_again(
    made: Any, verify: Run, own_policy: list[str]
) -> None:
    report, arms = made
    name_rules(report, 2)
    ran = verify(report, *arms, *own_policy)
    assert (ran.code, ran.out) == (3, "")
    assert "recorded under overhead rules 2, not decided again" in ran.err


@pytest.mark.parametrize("version", [0, -1, 1.5, "1", None, True])
def test_rules_that_were_never_released_are_a_forgery(
    made: Any, verify: Run, version: object
) -> None:
    report, arms = made
    name_rules(report, version)
    ran = verify(report, *arms)
    assert (ran.code, ran.out) == (4, "")
    assert f"overhead rules {version!r} do not exist" in ran.err


def test_a_report_without_rules_is_a_forgery(made: Any, verify: Run) -> None:
    report, arms = made
    del report["resolved_policy"]["settings"]["overhead_rules"]
    for path in ("policy_digest", "auto.policy_digest", "policy_provenance.policy_digest"):
        put(path, digest(report["resolved_policy"]))(report)
    assert verify(report, *arms).code == 4


@pytest.mark.parametrize("guarded", [10.05, 10.2])
@pytest.mark.parametrize("version", [0, 2, 3, 99])
def test_writing_another_version_of_the_rules_gains_nothing(
    gatemark: Run, verify: Run, tmp_path: Path, guarded: float, version: int
) -> None:
    arms = ppl_pair(tmp_path, 10, guarded)
    report = gatemark("score", "overhead", *arms, "--json").json
    put("verdict", "pass")(report)
    put("guard_overhead.passed", YES)(report)
    name_rules(report, version)
    assert verify(report, *arms).code == (3 if version else 4)
    # With digests that do not fit, it is recomputed and disagrees.
    put("policy_digest", "sha256:" + "0" * 64)(report)
    ran = verify(report, *arms)
    assert (ran.code, ran.json["checks"]["policy.digest"]) == (4, "fail")


def test_overrides_are_refused_unless_accepted(gatemark: Run, verify: Run, tmp_path: Path) -> None:
    arms = ppl_pair(tmp_path, 10, 10.2)
    why = ["--reason", "pilot", "--owner", "ada", "--evidence", "runs/7"]
    report = gatemark("score", "overhead", *arms, "--budget", 0.03, *why, "--json").json
    assert report["verdict"] == "pass"
    refused, accepted = verify(report, *arms), verify(report, *arms, "--accept-overrides")
    assert (refused.code, refused.json["checks"]["policy.overrides"]) == (4, "fail")
    assert (accepted.code, accepted.json["agrees"]) == (0, True)
    assert refused.json["overrides"][0]["owner"] == "ada"
    put("policy_provenance.overrides.0.reason", "")(report)
    bare_word = verify(report, *arms, "--accept-overrides")
    assert (bare_word.code, bare_word.json["checks"]["policy.overrides"]) == (4, "fail")
    put("policy_provenance.overrides.0.reason", "another")(report)
    edited = verify(report, *arms, "--accept-overrides")
    assert (edited.code, edited.json["checks"]["policy.resolved"]) == (4, "fail")


ALONE = """
import sys
for name in ("torch", "transformers", "datasets", "sqlalchemy", "httpx2", "jinja2", "fastapi"):
    sys.modules[name] = None
from gatemark.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""The command where nothing that runs a model, calls one or keeps a store can be imported."""


def test_a_report_is_verified_without_models_and_without_a_store(made: Any, tmp_path: Path) -> None:
    report, arms = made
    for verdict, code in ((report["verdict"], 0), ("fail", 4)):
        path = write(tmp_path / "report.json", [json.dumps(report | {"verdict": verdict})])
        words = [sys.executable, "-c", ALONE, "overhead", "verify", path, *arms]
        ran = subprocess.run(
            list(map(str, words)), cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ran.returncode == code, ran.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["report.json"]


def test_an_edited_provenance_is_caught(gatemark: Run, verify: Run, tmp_path: Path) -> None:
    arms = ppl_pair(tmp_path, 10, 10.01)
    report = gatemark("score", "overhead", *arms, "--budget", 0.005, "--json").json
    assert verify(report, *arms).code == 0
    put("policy_provenance.overrides.0.profile_value", 0.02)(report)
    ran = verify(report, *arms)
    assert (ran.code, ran.json["checks"]["policy.provenance"]) == (4, "fail")


def test_a_second_bare_run_is_verified_too(gatemark: Run, verify: Run, tmp_path: Path) -> None:
    arms = ppl_pair(tmp_path, 10, 10.05)
    noise = loss_arm(tmp_path / "n.jsonl", "bare", [math.log(10) + 1e-5] * 200)
    report = gatemark("score", "overhead", *arms, "--noise", noise, "--json").json
    assert verify(report, *arms).code == 0
    moved = shutil.move(noise, tmp_path / "moved.jsonl")
    without = verify(report, *arms)
    assert (without.code, without.out) == (2, "")
    assert "give the file with --noise" in without.err
    assert verify(report, *arms, "--noise", moved).code == 0
    louder = loss_arm(tmp_path / "n.jsonl", "bare", [math.log(10) + 2e-5] * 200)
    ran = verify(report, *arms, "--noise", louder)
    assert (ran.code, ran.json["checks"]["arm.noise"]) == (4, "fail")


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "[1]", '{"a": NaN}', '{"a": 1, "a": 2}', '{"a": "\\ud800"}', "1" * 5000],
)
def test_what_is_no_report_is_refused(made: Any, verify: Run, text: str) -> None:
    ran = verify(text, *made[1])
    assert (ran.code, ran.out) == (2, "")


def test_people_read_what_disagrees(gatemark: Run, made: Any, tmp_path: Path) -> None:
    report, arms = made
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report))
    ran = gatemark("overhead", "verify", path, *arms)
    assert ran.out == "AGREES  recomputed verdict PASS, policy from the report\n"
    report["guard_overhead"]["overhead_ratio"] = 1
    path.write_text(json.dumps(report))
    ran = gatemark("overhead", "verify", path, *arms, "-o", tmp_path / "v.json")
    assert ran.out.startswith("DISAGREES  recomputed verdict PASS")
    assert "value.ratio: guard_overhead.overhead_ratio: stored 1, recomputed 1.00" in ran.out
    assert json.loads((tmp_path / "v.json").read_text())["agrees"] is False


def test_people_read_why_a_report_is_not_of_the_schema(
    gatemark: Run, made: Any, tmp_path: Path
) -> None:
    report, arms = made
    put("guard_overhead.overhead_ratio", "banana")(report)
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report))
    ran = gatemark("overhead", "verify", path, *arms)
    assert ran.code == 4
    assert "DISAGREES  recomputed verdict not computed" in ran.out
    assert "report.schema: does not match the schema: Expected `float | null`, got `str`" in ran.out
    assert "$.guard_overhead.overhead_ratio" in ran.out
    assert "not checked: policy.overrides" in ran.out


@pytest.mark.parametrize("value", [2**70, 10**400, 1e308])
def test_a_number_beyond_any_policy_is_a_disagreement(made: Any, verify: Run, value: float) -> None:
    report, arms = made
    put("resolved_policy.settings.budget", value)(report)
    ran = verify(report, *arms)
    assert (ran.code, ran.json["checks"]["policy.digest"]) == (4, "fail")


def test_a_verdict_by_interval_is_recomputed_too(gatemark: Run, made: Any, verify: Run) -> None:
    _, arms = made
    report = gatemark("score", "overhead", *arms, "--mode", "interval", "--json").json
    assert (verify(report, *arms).code, report["guard_overhead"]["mode"]) == (3, "interval")
    put("guard_overhead.interval.low", -1.0)(report)
    assert verify(report, *arms).json["checks"]["value.interval"] == "fail"


LINE = '{"record_type":"window","window_id":"w1","content_hash":"h1","tokens":100,"loss":2.0}'


LINE = '{"record_type":"window","window_id":"w1","content_hash":"h1","tokens":100,"loss":2.0}'


@pytest.mark.parametrize(
    "line",
    [
        LINE.replace("2.0}", '9.0,"loss":2.0}'),
        LINE.replace("2.0}", '2.0,"skipped":true}'),
        LINE.replace("2.0", "1" + "0" * 400),
        LINE.replace("2.0", "1e999"),
        LINE.replace("2.0", "1e307"),
        LINE.replace("2.0", "NaN"),
        LINE.replace("2.0", "true"),
        LINE.replace("2.0", "\N{ARABIC-INDIC DIGIT TWO}"),
        LINE.replace(":100,", ":9007199254740992,"),
        LINE.replace('"w1"', '["w1"]'),
        LINE.replace('"w1"', '"w\\n1"'),
        LINE.replace('"w1"', '"w0"'),
        LINE.replace('"w1"', '" "'),
        LINE.replace('"h1"', '"h\N{LINE SEPARATOR}1"'),
        LINE.replace('"h1"', "null"),
        "[" * 2_000,
        "[]",
        LINE[:-9],
        LINE,
    ],
)
def test_a_hostile_line_never_passes(gatemark: Run, tmp_path: Path, line: str) -> None:
    start = [math.log(10), 2.0, *[math.log(10)] * 198]
    bare = loss_arm(tmp_path / "b.jsonl", "bare", [*start[:2], *[math.log(10) - 1e-6] * 198])
    rows = loss_arm(tmp_path / "g.jsonl", "guarded", start).read_text().splitlines()
    arms = ["--bare", bare, "--guarded", write(tmp_path / "g.jsonl", [*rows[:2], line, *rows[3:]])]
    ours = gatemark("score", "overhead", *arms, "--json")
    assert ours.code == (0 if line == LINE else 3)


def test_a_policy_changes_the_verdict_as_it_says(gatemark: Run, tmp_path: Path) -> None:
    arms = ppl_pair(tmp_path, 10, 10.05)
    why = "reason: r, owner: o, evidence: e"
    for overrides, code in (
        ("{field: min_windows, value: 999}", 3),
        ("{field: min_tokens, value: 99999}", 3),
        ("{field: min_windows, value: 999}, {field: on_unmeasured, value: fail}", 1),
        (f"{{field: budget, value: 0.002}}, {{field: level, value: 0.9, {why}}}", 1),
        (f"{{field: budget, value: 0.2, {why}}}", 0),
    ):
        policy = tmp_path / "policy.yaml"
        policy.write_text(f"overrides: [{overrides}]\n")
        assert gatemark("score", "overhead", *arms, "--policy", policy).code == code
