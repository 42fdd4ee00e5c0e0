"""What is wrong with a pack is said before anybody is asked: by lint, and by run before a call."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatemark.packs.lint.sizes import compute_least_items

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


def messages(ran: Any) -> list[str]:
    """The warnings of lint without their places, each of which is a file and a line."""
    found = [
        re.fullmatch(r"(\S+\.(?:yaml|jsonl):\d+): (.*)", line) for line in ran.json["warnings"]
    ]
    return [one[2] for one in found if one is not None or pytest.fail(str(ran.json["warnings"]))]


BAD = [
    (
        "dataset: g.jsonl",
        "dataset: g.jsonl, options: {kk: 3}",
        "",
        "pack.yaml:8: suite g: unknown key 'kk'; did you mean 'k'? (allowed: k)",
    ),
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
        "rules: [{id: g.errors, metric: score, scope: g, op: '>=', bound: 0.5}]\n",
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
        (
            "openai: {base_url: 'http://h/v1', model: m, prompt_file: gone.txt}",
            "targets.baseline: prompt_file: gone.txt: cannot be read",
        ),
        (
            "openai: {base_url: 'http://h/v1', model: m, prompt: 'Say {{input}}', "
            "system: 'file://s.txt'}",
            "system would be sent as the text 'file://s.txt'; write system_file: s.txt",
        ),
        (
            "openai: {base_url: 'http://h/v1', model: m, prompt: Say hello}",
            "targets.baseline: the request never uses the item",
        ),
        ("http: {url: 'http://h/', response: a, body: {q: 1}}", "never uses the item"),
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
    RULE.format("scroe", 0.5, ", scope: g"): "rule mine: nothing measures 'scroe' there",
    RULE.format("score", 0.5, ""): "rule mine: score belongs to a suite, so the rule needs a scope",
    RULE.format("score", 0.5, ", scope: h"): "rule mine: no suite is called 'h'",
    RULE.format("score", 1.5, ", scope: g"): "rule mine: score >= 1.5 can never hold",
    RULE.format("bench", 0.5, ""): None,
    RULE.format("gained_count", 3, ", scope: g"): None,
}


@pytest.mark.parametrize(("rule", "warning"), HOPELESS.items())
def test_lint_warns_of_rules_that_can_never_be_judged_or_hold(
    gatemark: Run, folder: Path, rule: str, warning: str | None
) -> None:
    ran = gatemark("lint", written(folder, more=rule), "--json")
    assert ran.code == 0
    about_rules = [found for found in messages(ran) if found.startswith("rule ")]
    assert [found.startswith(str(warning)) for found in about_rules] == [True] * (
        warning is not None
    )


def test_lint_warns_of_tags_and_scores_that_cannot_come_about(gatemark: Run, folder: Path) -> None:
    suites = (
        "dataset: g.jsonl, slices: [t, nowhere], sample: {n: 60}}\n"
        "  - {id: c, kind: calibration, weight: 0.5, from: g"
    )
    path = written(folder, "weight: 1.0, dataset: g.jsonl", f"weight: 0.5, {suites}")
    warnings = messages(gatemark("lint", path, "--json"))
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
    path = written(folder, "kind: golden", f"kind: {kind}")
    warnings = messages(gatemark("lint", path, "--json"))
    count = 5 if kind == "golden" else 60
    start = f"suite g: {count} of 60 items can never be scored, such as i0: {told}"
    assert any(found.startswith(start) for found in warnings)


@pytest.mark.parametrize(("n", "warns"), [(29, True), (30, False)])
def test_lint_tells_when_even_an_identical_candidate_would_stay_open(
    gatemark: Run, folder: Path, n: int, warns: bool
) -> None:
    assert compute_least_items(0.1, 0.05) == 30
    path = written(folder, "dataset: g.jsonl", f"dataset: g.jsonl, sample: {{n: {n}}}")
    warnings = gatemark("lint", path, "--json").json["warnings"]
    told = f"{n} items cannot show that an identical candidate stays within regression_max 0.1"
    assert any(told in found for found in warnings) == warns
    ran = gatemark("run", path, "--store", folder / "store", "--json")
    assert ran.code == (3 if warns else 0)


def test_no_number_of_items_shows_that_nothing_was_lost() -> None:
    assert compute_least_items(0.0, 0.05) is None


def test_aliases_that_stand_for_billions_of_values_are_refused(gatemark: Run, folder: Path) -> None:
    lines = ["    a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"    a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    more = "judges:\n  j:\n    labels: g.jsonl\n    target:\n  " + "\n  ".join(lines) + "\n"
    ran = gatemark("lint", written(folder, more=more))
    assert ran.code == 2
    assert "its aliases expand to more than 1000000 values" in ran.err


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


MISTAKES = {
    "target: different": (
        [("a", "x"), ("b", "y"), ("a", "z")],
        "g.jsonl:3: 1 input is repeated with different targets: 'a' has 'z' here and 'x' at ",
    ),
    "repeated": (
        [("a", "x"), ("b", "y"), ("a", "x")],
        "g.jsonl:3: 1 input is repeated: 'a' was seen at ",
    ),
    "one label": (
        [("a", "yes"), ("b", "yes")],
        "g.jsonl:1: all 2 items have the target 'yes', so a constant answer gets a full score",
    ),
    "blanks": (
        [("a", "x"), ("b", "y ")],
        "g.jsonl:2: 1 of 2 items have blanks at the start or end of target, such as 'y '",
    ),
    "personal": (
        [("a", "x"), ({"deep": ["ask ann@example.org"]}, "y")],
        "g.jsonl:2: 1 of 2 items seem to hold personal data or keys, such as i1 (email)",
    ),
}


@pytest.mark.parametrize(("rows", "warning"), MISTAKES.values(), ids=MISTAKES.keys())
def test_lint_finds_mistakes_in_the_data(
    gatemark: Run, folder: Path, rows: list[tuple[Any, str]], warning: str
) -> None:
    def about_data(given: list[tuple[Any, str]]) -> list[str]:
        lines = [{"id": f"i{n}", "input": i, "target": t} for n, (i, t) in enumerate(given)]
        (folder / "g.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        found: list[str] = gatemark("lint", written(folder), "--json").json["warnings"]
        return [one for one in found if one.startswith(f"{folder}/g.jsonl:")]

    (found,) = about_data(rows)
    assert found.startswith(f"{folder}/{warning}")
    assert "ann@" not in found
    assert about_data([("a", "x"), ("b", "y")]) == []


def test_repeats_of_one_cluster_are_meant(gatemark: Run, folder: Path) -> None:
    rows = [{"id": f"i{n}", "input": "a", "target": "x", "cluster": "c"} for n in range(2)]
    rows.append({"id": "other", "input": "b", "target": "y"})
    (folder / "g.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert not any(
        "repeated" in one for one in messages(gatemark("lint", written(folder), "--json"))
    )


def test_lint_warns_of_a_sample_larger_than_the_data(gatemark: Run, folder: Path) -> None:
    path = written(folder, "dataset: g.jsonl", "dataset: g.jsonl, sample: {n: 301}")
    told = "suite g: sample.n is 301, but g.jsonl has 300 items"
    assert any(one.startswith(told) for one in messages(gatemark("lint", path, "--json")))


def test_lint_warns_of_the_same_data_in_two_suites(gatemark: Run, folder: Path) -> None:
    lines = (folder / "g.jsonl").read_text().splitlines(keepends=True)
    other = [*lines[:40], '{"id": "x", "input": "new", "target": "new"}\n']
    (folder / "h.jsonl").write_text("".join(other))
    path = written(
        folder,
        "weight: 1.0, dataset: g.jsonl}",
        "weight: 0.5, dataset: g.jsonl}\n  - {id: h, kind: golden, weight: 0.5, dataset: h.jsonl}",
    )
    found = gatemark("lint", path, "--json").json["warnings"]
    told = f"{path}:9: suite h: 40 of its 41 inputs are also in suite g, so they count twice"
    assert any(one.startswith(told) for one in found)


def test_lint_warns_of_a_candidate_that_is_its_own_baseline(gatemark: Run, folder: Path) -> None:
    told = "candidate and baseline are the same target, so nothing can regress"
    assert any(told in one for one in gatemark("lint", written(folder), "--json").json["warnings"])
    path = written(folder, 'baseline: {python: "app:answer"', 'baseline: {python: "old:answer"')
    (folder / "old.py").write_text(APP)
    assert not any(told in one for one in gatemark("lint", path, "--json").json["warnings"])


@pytest.mark.parametrize(
    ("reference", "complaint"),
    [
        (
            "app:anser",
            "pack.yaml:10: targets.candidate: app.py has no function 'anser'; did you mean "
            "'answer'? (functions there: answer)",
        ),
        ("ap:answer", "targets.candidate: no module 'ap' in the pack's folder or installed; did"),
        ("nowhere.deep:answer", "no module 'nowhere.deep' in the pack's folder or installed"),
        ("broken:answer", "targets.candidate: broken.py:1: cannot be parsed"),
        ("app", "must look like 'module:function', got 'app'"),
    ],
)
def test_lint_misses_modules_and_functions_without_running_them(
    gatemark: Run, folder: Path, reference: str, complaint: str
) -> None:
    (folder / "broken.py").write_text("def answer(:\n")
    (folder / "app.py").write_text(APP + "\nraise RuntimeError('this runs')\n")
    path = written(
        folder, 'candidate: {python: "app:answer"', f'candidate: {{python: "{reference}"'
    )
    ran = gatemark("lint", path)
    assert ran.code == 2
    assert complaint in ran.err


@pytest.mark.parametrize(
    "source",
    [
        "from elsewhere import answer",
        "answer = str",
        "try:\n    from fast import answer\nexcept ImportError:\n    def answer(x): return x",
        "class answer:\n    def method(self): ...",
        "from elsewhere import *",
        "import answer as other, answer",
    ],
)
def test_a_function_may_come_about_in_many_ways(gatemark: Run, folder: Path, source: str) -> None:
    (folder / "app.py").write_text(source + "\n")
    assert gatemark("lint", written(folder)).code == 0


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (
            "dataset: g.jsonl",
            "dataset: g.jsonl, scorer: {name: regex, options: {patern: x}}",
            "pack.yaml:8: suite g: scorer regex: unknown key 'patern'; did you mean 'pattern'? "
            "(allowed: dotall, ignore_case, match, multiline, pattern)",
        ),
        (
            "dataset: g.jsonl",
            "dataset: g.jsonl, scorer: {name: regex, options: {match: half}}",
            "pack.yaml:8: suite g: scorer regex: Invalid enum value 'half' "
            "(at $.suites[0].scorer.options.match)",
        ),
        (
            "dataset: g.jsonl",
            "dataset: g.jsonl, scorer: exakt",
            "pack.yaml:8: suite g: no scorer is called 'exakt'",
        ),
        ("kind: golden", "kind: goldn", "pack.yaml:8: suite g: no suite is called 'goldn'"),
        (
            'baseline: {python: "app:answer"}',
            'baseline: {python: "app:answer", retrys: 2}',
            "pack.yaml:11: unknown key 'retrys'; did you mean 'retries'? (allowed: budget, burst,",
        ),
        (
            'baseline: {python: "app:answer"}',
            "baseline:\n    http:\n      url: http://127.0.0.1/\n      respons: x",
            "pack.yaml:14: unknown key 'respons'; did you mean 'response'? (allowed: api_key_env,",
        ),
    ],
)
def test_a_wrong_option_is_named_with_its_line_and_the_keys_allowed(
    gatemark: Run, folder: Path, old: str, new: str, complaint: str
) -> None:
    path = written(folder, old, new)
    for verb in (("lint", path), ("run", path, "--store", folder / "store")):
        ran = gatemark(*verb)
        assert ran.code == 2
        assert complaint in ran.err
    assert not (folder / "called").exists()


def test_lint_predicts_verdicts_for_an_equal_and_a_worse_candidate(
    gatemark: Run, folder: Path
) -> None:
    path = written(folder)
    (told,) = gatemark("lint", path, "--json").json["predictions"]
    assert "if 10% of the answers differ (assumed): an equal candidate would pass " in told
    assert "; one worse by 0.2 would pass " in told
    (rare,) = gatemark("lint", path, "--discordance", 0.02, "--json").json["predictions"]
    assert (
        "if 2% of the answers differ (given): an equal candidate would pass 100%, fail 0%" in rare
    )
    assert "prediction: suite" in gatemark("lint", path).out


def test_lint_tells_that_the_floor_of_a_suite_that_is_not_required_only_warns(
    gatemark: Run, folder: Path
) -> None:
    told = "suite g: its floor 0.5 only warns, because the suite is not required"
    for key, warns in (("min: 0.5", True), ("min: 0.5, severity: block", False)):
        path = written(folder, "dataset: g.jsonl", f"dataset: g.jsonl, {key}")
        warnings = gatemark("lint", path, "--json").json["warnings"]
        assert any(told in found for found in warnings) == warns
