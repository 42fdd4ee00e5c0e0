"""What is wrong with a pack is said before anybody is asked: by lint, and by run before a call."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatemark.packs.predict import least_items

Run = Callable[..., Any]

PACK = """\
gatemark: 1
name: t
version: 1
asset: {kind: prompt, name: t}
score_min: 0.5
regression_max: 0.1
suites:
  - {id: g, kind: golden, weight: 1.0, dataset: g.jsonl}
targets:
  candidate: {python: "app:answer"}
  baseline: {python: "app:answer"}
"""
APP = """
import pathlib

def answer(number):
    (pathlib.Path(__file__).parent / "called").write_text("yes")
    return str(number)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"id": f"i{n}", "input": n, "target": str(n), "tags": {"t": "x"}} for n in range(300)]
    (tmp_path / "g.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def written(folder: Path, old: str = "", new: str = "", *, more: str = "") -> Path:
    path = folder / "pack.yaml"
    assert old in PACK
    path.write_text(PACK.replace(old, new) + more)
    return path


BAD = [
    ("dataset: g.jsonl", "dataset: g.jsonl, options: {kk: 3}", "", "unknown field `kk`"),
    ("dataset: g.jsonl", "dataset: g.jsonl, options: {k: 0}", "", "`int` >= 1"),
    (
        "dataset: g.jsonl",
        "dataset: g.jsonl, epochs: 2, options: {k: 3}",
        "",
        "k must be <= its 2 epochs or reruns, got 3",
    ),
    (
        "",
        "",
        "rules: [{id: g.errors, metric: score, lane: g, op: '>=', bound: 0.5}]\n",
        "repeats rule ids: g.errors",
    ),
]


@pytest.mark.parametrize(("change", "complaint"), [(case[:3], case[3]) for case in BAD])
def test_options_and_rules_are_refused_before_a_call_is_paid_for(
    gatemark: Run, folder: Path, change: tuple[str, str, str], complaint: str
) -> None:
    old, new, more = change
    path = written(folder, old, new, more=more)
    for verb in (("lint", path), ("run", path, "--store", folder / "store")):
        ran = gatemark(*verb)
        assert ran.code == 2
        assert complaint in ran.err
    assert not (folder / "called").exists()


def test_a_waiver_that_matches_nothing_is_refused_before_a_call_is_paid_for(
    gatemark: Run, folder: Path
) -> None:
    waivers = folder / "waivers.yaml"
    line = "- {{rule: {}, owner: me, reason: known, expires_at: 2099-01-01T00:00:00Z}}\n"
    waivers.write_text(line.format("g.flor"))
    path = written(folder)
    ran = gatemark("run", path, "--store", folder / "store", "--waivers", waivers)
    assert ran.code == 2
    assert "waiver for g.flor matches no rule" in ran.err
    assert not (folder / "called").exists()
    waivers.write_text(line.format("g.errors").replace("owner: me", "owner: me, owner: you"))
    ran = gatemark("run", path, "--store", folder / "store", "--waivers", waivers)
    assert ran.code == 2
    assert "waivers.yaml:1: key 'owner' appears more than once" in ran.err


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ("recorded: gone.jsonl", "targets.baseline: gone.jsonl: No such file"),
        ("command: [no-such-program-here]", "no program is called 'no-such-program-here'"),
    ],
)
def test_lint_misses_what_a_target_names(
    gatemark: Run, folder: Path, target: str, complaint: str
) -> None:
    ran = gatemark(
        "lint", written(folder, 'baseline: {python: "app:answer"', f"baseline: {{{target}")
    )
    assert ran.code == 2
    assert complaint in ran.err


RULE = "rules: [{{id: mine, metric: {}, op: '>=', bound: {}{}}}]\n"
HOPELESS = {
    RULE.format("scroe", 0.5, ", lane: g"): "rule mine: nothing measures 'scroe' there",
    RULE.format("score", 0.5, ""): "rule mine: score belongs to a suite, so the rule needs a lane",
    RULE.format("score", 0.5, ", lane: h"): "rule mine: no suite is called 'h'",
    RULE.format("score", 1.5, ", lane: g"): "rule mine: score >= 1.5 can never hold",
    RULE.format("bench", 0.5, ""): None,
    RULE.format("gained_count", 3, ", lane: g"): None,
}


@pytest.mark.parametrize(("rule", "warning"), HOPELESS.items())
def test_lint_warns_of_rules_that_can_never_be_judged_or_hold(
    gatemark: Run, folder: Path, rule: str, warning: str | None
) -> None:
    ran = gatemark("lint", written(folder, more=rule), "--json")
    assert ran.code == 0
    about_rules = [found for found in ran.json["warnings"] if found.startswith("rule ")]
    assert [found.startswith(str(warning)) for found in about_rules] == [True] * (
        warning is not None
    )


def test_lint_warns_of_tags_and_scores_that_cannot_come_about(gatemark: Run, folder: Path) -> None:
    suites = (
        "dataset: g.jsonl, slices: [t, nowhere], sample: {n: 60}}\n"
        "  - {id: c, kind: calibration, weight: 0.5, from: g"
    )
    path = written(folder, "weight: 1.0, dataset: g.jsonl", f"weight: 0.5, {suites}")
    warnings = gatemark("lint", path, "--json").json["warnings"]
    assert "suite g: no item carries the tag 'nowhere'" in warnings
    assert any(found.startswith("suite c can never have a score: 60 answers") for found in warnings)
    assert not any("'t'" in found for found in warnings)


@pytest.mark.parametrize(
    ("kind", "told"), [("golden", "exact needs a target"), ("adversarial", "")]
)
def test_lint_warns_of_items_that_can_never_be_scored(
    gatemark: Run, folder: Path, kind: str, told: str
) -> None:
    rows = [{"id": f"i{n}", "input": n, "target": str(n) if n > 4 else None} for n in range(60)]
    (folder / "g.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    warnings = gatemark("lint", written(folder, "kind: golden", f"kind: {kind}"), "--json").json[
        "warnings"
    ]
    count = 5 if kind == "golden" else 60
    start = f"suite g: {count} of 60 items can never be scored, such as i0: {told}"
    assert any(found.startswith(start) for found in warnings)


@pytest.mark.parametrize(("n", "warns"), [(29, True), (30, False)])
def test_lint_tells_when_even_an_identical_candidate_would_stay_open(
    gatemark: Run, folder: Path, n: int, warns: bool
) -> None:
    assert least_items(0.1, 0.05) == 30
    path = written(folder, "dataset: g.jsonl", f"dataset: g.jsonl, sample: {{n: {n}}}")
    warnings = gatemark("lint", path, "--json").json["warnings"]
    told = f"{n} items cannot show that an identical candidate stays within regression_max 0.1"
    assert any(told in found for found in warnings) == warns
    ran = gatemark("run", path, "--store", folder / "store", "--json")
    assert ran.code == (3 if warns else 0)


def test_no_number_of_items_shows_that_nothing_was_lost() -> None:
    assert least_items(0.0, 0.05) is None


def test_aliases_that_stand_for_billions_of_values_are_refused(gatemark: Run, folder: Path) -> None:
    lines = ["    a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"    a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    more = "judges:\n  j:\n    labels: g.jsonl\n    target:\n  " + "\n  ".join(lines) + "\n"
    ran = gatemark("lint", written(folder, more=more))
    assert ran.code == 2
    assert "its aliases stand for more than 1000000 values" in ran.err


def test_a_few_aliases_are_welcome(gatemark: Run, folder: Path) -> None:
    path = written(
        folder, 'candidate: {python: "app:answer"}', 'candidate: &arm {python: "app:answer"}'
    )
    path.write_text(path.read_text().replace('baseline: {python: "app:answer"}', "baseline: *arm"))
    assert gatemark("run", path, "--store", folder / "store").code == 0


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("score_min", "score_mn", "pack.yaml:5: unknown key 'score_mn'"),
        ("weight: 1.0", "weight: 1.0, min: .nan", "pack.yaml:8: Expected `float` >= 0.0, got .nan"),
        ("score_min: 0.5", "score_min: 2", "pack.yaml:5: Expected `float` <= 1.0, got 2"),
        (
            "kind: prompt",
            "kind: promt",
            "pack.yaml:4: Invalid enum value 'promt' (at $.asset.kind)",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line_and_the_value_seen(
    gatemark: Run, folder: Path, old: str, new: str, complaint: str
) -> None:
    ran = gatemark("lint", written(folder, old, new))
    assert ran.code == 2
    assert complaint in ran.err
