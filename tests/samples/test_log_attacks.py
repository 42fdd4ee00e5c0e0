"""Logs that were cut, doubled, reordered or relabelled must not turn a fail into a pass."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.samples.importers import peer_shapes as shapes

Run = Callable[..., Any]
ROWS = 80


def promptfoo(
    wrong: set[int], *, column: int = 0, count: int = ROWS, repeat: int = 1, own_ids: bool = True
) -> dict[str, Any]:
    """A log of one column that is wrong on some items; each repeat is a test of its own."""
    rows = []
    for number in range(count):
        for again in range(repeat):
            row = shapes.promptfoo_row(number, column, 2 * count if number not in wrong else 1)
            row["testIdx"] = number * repeat + again
            if not own_ids:
                row["testCase"] |= {"description": None, "metadata": {}}
            rows.append(row)
    return with_aggregates(rows, count=count, repeat=repeat)


def with_aggregates(
    rows: list[Any], *, count: int, repeat: int = 1, name: str = "eval-1"
) -> dict[str, Any]:
    """The log around some rows, its aggregates as the tool would write them."""
    passed = sum(row["success"] for row in rows)
    counted = {"testPassCount": passed, "testFailCount": len(rows) - passed, "testErrorCount": 0}
    return {
        "evalId": name,
        "results": {
            "version": 3,
            "prompts": [{"provider": "p", "metrics": counted}],
            "results": rows,
            "stats": {"successes": passed, "failures": len(rows) - passed, "errors": 0},
        },
        "config": {"tests": [{"description": shapes.item(n)} for n in range(count)]},
        "metadata": {"promptfooVersion": "0.121.20"},
        "runtimeOptions": {"repeat": repeat},
    }


@pytest.fixture
def compare(gatemark: Run, tmp_path: Path) -> Run:
    """Compare two documents: directly, or by way of ``gatemark import``."""

    def run(base: Any, cand: Any, *options: object, imported: bool = False) -> Any:
        paths = []
        for name, log in (("base", base), ("cand", cand)):
            path = tmp_path / f"{name}.json"
            path.write_text(json.dumps(log))
            if imported:
                out = tmp_path / f"{name}.jsonl"
                assert gatemark("import", path, "-o", out).code == 0
                path = out
            paths.append(path)
        scores = ("--score", "success") if "evalId" in base else ()
        return gatemark("compare", *paths, *scores, "--json", *options)

    return run


BASE = promptfoo(set())
WORSE = promptfoo(set(range(12)))
SAME = promptfoo(set()) | {"evalId": "eval-2"}


def test_the_logs_as_they_are_pass_and_fail(compare: Run) -> None:
    assert compare(BASE, SAME).json["verdict"] == "pass"
    assert compare(BASE, WORSE).json["verdict"] == "fail"


@pytest.mark.parametrize("own_ids", [True, False])
def test_repeats_are_epochs_and_not_independent_items(compare: Run, *, own_ids: bool) -> None:
    base = promptfoo(set(), count=20, repeat=2, own_ids=own_ids)
    cand = promptfoo({1, 2, 3, 4}, count=20, repeat=2, own_ids=own_ids)
    found = compare(base, cand).json
    assert (found["n"], found["lost"], found["p_value"]) == (20, 4, 0.125)
    assert found["verdict"] == "inconclusive"


def test_repeats_are_epochs_where_the_file_does_not_say_so(gatemark: Run, tmp_path: Path) -> None:
    paths = []
    for name, wrong in (("base", set()), ("cand", {1, 2, 3, 4})):
        log = promptfoo(wrong, count=20, repeat=2, own_ids=False)
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in log["results"]["results"]))
        paths.append(path)
    found = gatemark("compare", *paths, "--score", "success", "--json").json
    assert (found["n"], found["p_value"]) == (20, 0.125)


def test_repeats_whose_variables_change_are_epochs_by_their_order(compare: Run) -> None:
    logs = []
    for wrong in (set(), {1, 2, 3, 4}):
        log = promptfoo(wrong, count=20, repeat=2, own_ids=False)
        for row in log["results"]["results"]:
            row["vars"] = {"question": row["vars"]["question"], "now": row["testIdx"]}
        logs.append(log)
    assert compare(*logs).json["n"] == 20


@pytest.mark.parametrize("imported", [False, True])
@pytest.mark.parametrize("sides", ["base", "cand"])
def test_another_number_of_repeats_on_one_side_holds(
    compare: Run, sides: str, *, imported: bool
) -> None:
    more = promptfoo(set(), repeat=3)
    base, cand = (more, SAME) if sides == "base" else (BASE, more)
    found = compare(base, cand, imported=imported).json
    assert found["verdict"] == "inconclusive"
    assert "are not on the other side" in found["reason"]


@pytest.mark.parametrize("imported", [False, True])
def test_dropped_failures_are_found_by_the_aggregates(compare: Run, *, imported: bool) -> None:
    cut = copy.deepcopy(WORSE)
    cut["results"]["results"] = [row for row in cut["results"]["results"] if row["success"]]
    del cut["config"]["tests"]
    both = copy.deepcopy(BASE)
    both["results"]["results"] = both["results"]["results"][12:]
    del both["config"]["tests"]
    found = compare(both, cut, imported=imported).json
    assert found["n"] == ROWS - 12
    assert found["verdict"] == "inconclusive"
    assert "the base contradicts itself" in found["reason"]
    assert any("candidate contradicts itself: stats" in reason for reason in found["blockers"])


@pytest.mark.parametrize("imported", [False, True])
def test_a_filtered_run_cannot_pass_even_when_its_aggregates_agree(
    compare: Run, *, imported: bool
) -> None:
    def cut(log: dict[str, Any], name: str) -> dict[str, Any]:
        return with_aggregates(log["results"]["results"][12:], count=ROWS, name=name)

    found = compare(cut(BASE, "eval-1"), cut(WORSE, "eval-2"), imported=imported).json
    assert found["verdict"] == "inconclusive"
    assert "the base is incomplete: results cover 68 of the 80 tests" in found["reason"]


def test_an_incomplete_run_can_still_fail(compare: Run) -> None:
    worse = with_aggregates(WORSE["results"]["results"][:60], count=ROWS)
    base = with_aggregates(BASE["results"]["results"][:60], count=ROWS)
    assert compare(base, worse).json["verdict"] == "fail"


def test_a_doubled_row_is_refused(compare: Run) -> None:
    doubled = copy.deepcopy(WORSE)
    doubled["results"]["results"] += doubled["results"]["results"][20:]
    ran = compare(BASE, doubled)
    assert ran.code == 2
    assert "repeat an id" in ran.err
    assert "promptfoo 0.121.20" in ran.err


@pytest.mark.parametrize("own_ids", [True, False])
def test_good_rows_copied_under_new_numbers_are_repeats(compare: Run, *, own_ids: bool) -> None:
    """Three hundred copies of right answers would drown twelve wrong ones."""
    logs = []
    for wrong in (set(), set(range(12))):
        rows = promptfoo(wrong, own_ids=own_ids)["results"]["results"]
        copies = [
            row | {"testIdx": ROWS * (2 + again) + row["testIdx"], "id": f"c{again}"}
            for again in range(5)
            for row in rows[20:]
        ]
        logs.append(with_aggregates(rows + copies, count=ROWS))
        del logs[-1]["config"]["tests"]
    found = compare(*logs).json
    assert (found["n"], found["verdict"]) == (ROWS, "fail")


def test_another_order_of_nameless_rows_is_no_comparison(compare: Run) -> None:
    """With positions as ids, another order pairs every answer with another question."""
    base, cand = promptfoo(set(), own_ids=False), promptfoo(set(range(12)), own_ids=False)
    for log in (base, cand):
        for row in log["results"]["results"]:
            row["testCase"]["assert"] = []
    rows = cand["results"]["results"]
    for row in rows:
        row["testIdx"] = ROWS - 1 - row["testIdx"]
    found = compare(base, cand).json
    assert found["verdict"] == "inconclusive"
    assert "paired samples have another input" in found["reason"]


def test_another_order_of_named_rows_changes_nothing(compare: Run) -> None:
    turned = copy.deepcopy(WORSE)
    turned["results"]["results"].reverse()
    for place, row in enumerate(turned["results"]["results"]):
        row["testIdx"] = place
    found, before = compare(BASE, turned).json, compare(BASE, WORSE).json
    assert (found["verdict"], found["p_value"]) == (before["verdict"], before["p_value"])


def test_rows_relabelled_to_the_other_arm_are_found(compare: Run) -> None:
    """Bad answers of the candidate given to the baseline, and good ones taken in exchange."""
    log = shapes.promptfoo_log(crashed=frozenset())
    rows = log["results"]["results"]
    for row in rows:
        if row["testIdx"] in (4, 8):
            row["promptIdx"] = 1 - row["promptIdx"]
    arms = ("--base-arm", "baseline", "--cand-arm", "2")
    found = compare(log, log, *arms).json
    assert found["verdict"] == "inconclusive"
    assert any("several providers" in reason for reason in found["blockers"])
    assert any("arm successes" in reason for reason in found["blockers"])


def test_a_wrong_aggregate_holds_whatever_the_rows_say(compare: Run) -> None:
    base, cand = shapes.inspect_log(40), shapes.inspect_log(40)
    cand["eval"]["created"] = "2026-11-16T18:19:29+00:00"
    assert compare(base, cand, "--margin", "0.3").json["verdict"] == "pass"
    cand["results"]["scores"][0]["metrics"]["accuracy"]["value"] = 0.5
    for imported in (False, True):
        found = compare(base, cand, "--margin", "0.3", imported=imported).json
        assert found["verdict"] == "inconclusive"
        assert "the candidate contradicts itself: match accuracy" in found["reason"]


@pytest.mark.parametrize("epochs", [(1, 2), (2, 1)])
def test_other_epochs_hold(compare: Run, epochs: tuple[int, int]) -> None:
    logs = [shapes.inspect_log(40, epochs=number) for number in epochs]
    assert compare(*logs, "--margin", "0.3").json["verdict"] == "inconclusive"


def test_nan_in_place_of_a_failure_holds(compare: Run) -> None:
    base, cand = shapes.inspect_log(40), shapes.inspect_log(40)
    cand["samples"][3]["scores"]["match"]["value"] = float("nan")
    cand["results"]["scores"][0]["metrics"]["accuracy"]["value"] = 18 / 19
    found = compare(base, cand, "--margin", "0.3").json
    assert found["verdict"] == "inconclusive"
    assert "1 of 20 candidate samples errored" in " ".join(found["blockers"])


def test_a_metric_verdict_that_contradicts_its_metrics_holds(compare: Run) -> None:
    base, cand = shapes.deepeval_log(40), shapes.deepeval_log(40)
    case = cand["testCases"][3]
    case["metricsData"][0] |= {"success": False, "score": 0.0}
    cand["metricsScores"][0] |= {"passes": 18, "fails": 2}
    found = compare(base, cand, "--score", "success", "--margin", "0.3").json
    assert found["verdict"] == "inconclusive"
    assert "does not match its metrics" in found["reason"]
