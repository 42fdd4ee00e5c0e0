from __future__ import annotations

import json
from typing import Any

import pytest

from gatemark.samples.views import (
    Clusters,
    ComparisonReport,
    LostItem,
    Side,
    SideNames,
    Sides,
    render_comparison_json,
    render_comparison_markdown,
    render_comparison_text,
)

NOBODY = SideNames((), ())
HOSTILE = "<script>alert(1)</script> | **b** [x](http://e.example) @all\n# head \x1b[31m"


def side(name: str, **more: Any) -> Side:
    fields = {
        "file": name,
        "digest": "sha256:" + "0" * 64,
        "tool": "gatemark.sample/1",
        "arm": None,
        "samples": 100,
        "items": 100,
        "scored_items": 99,
        "mean": 0.8,
        "mean_over_all": 0.792,
        "lineage": {},
    }
    return Side(**(fields | more))


def compared(**more: Any) -> ComparisonReport:
    fields: dict[str, Any] = {
        "score": "exact",
        "n": 99,
        "both_right": 70,
        "both_wrong": 11,
        "gained": 8,
        "lost": 10,
        "improved": 8,
        "worsened": 10,
        "unchanged": 81,
        "direction": "higher_is_better",
        "direction_source": "its name",
        "files": "different",
        "delta": -0.0202,
        "delta_over_all": -0.03,
        "interval": (-0.11, 0.07),
        "interval_level": 0.95,
        "interval_method": "melded exact",
        "other_intervals": (),
        "p_value": 0.81,
        "mid_p_value": 0.7,
        "permutation_p_value": 0.81,
        "method": "exact McNemar",
        "mde": 0.12,
        "errors": Sides(0, 1),
        "unscored": Sides(0, 0),
        "unpaired": Sides(0, 0),
        "refused": Sides(0, 0),
        "verdict": "inconclusive",
        "reason": "1 of 100 candidate samples errored: q7",
        "blockers": ("1 of 100 candidate samples errored: q7", "too few items"),
        "caveats": ("a caveat",),
        "non_inferiority": None,
        "alpha": 0.05,
        "seed": 5,
        "resamples": 9999,
        "epochs": 1,
        "clusters": None,
        "base": side("base.jsonl"),
        "cand": side("cand.jsonl"),
        "worst": tuple(LostItem(f"q{i}", 1.0, 0.0, -1.0) for i in range(10)),
        "error_ids": SideNames((), ("q7",)),
        "unscored_ids": NOBODY,
        "unpaired_ids": NOBODY,
    }
    return ComparisonReport(**(fields | more))


def test_markdown_puts_the_verdict_first_then_the_counts_then_the_regressions():
    text = render_comparison_markdown(compared()).decode()
    assert text.startswith("**INCONCLUSIVE** `exact` — 1 of 100 candidate samples errored: q7\n")
    places = [text.index(word) for word in ("Gained and lost", "Numbers", "Worst regressions")]
    assert places == sorted(places)
    assert "| lost (right, now wrong) | 10 |" in text
    assert "| delta with errors as 0 | -0.0300 |" in text
    assert "### Errored: candidate\n\n- q7" in text
    assert "- too few items" in text


def test_json_is_the_document_itself():
    document = json.loads(render_comparison_json(compared()))
    assert document["errors"] == {"base": 0, "cand": 1}
    assert document["interval"] == [-0.11, 0.07]
    assert document["worst"][0] == {"id": "q0", "base": 1.0, "cand": 0.0, "delta": -1.0}


@pytest.mark.parametrize(
    "render", [lambda c: render_comparison_markdown(c).decode(), render_comparison_text]
)
def test_hostile_text_stays_text(render):
    hostile = compared(
        score=HOSTILE,
        reason=HOSTILE,
        blockers=(HOSTILE, HOSTILE),
        caveats=(HOSTILE,),
        base=side(HOSTILE),
        worst=(LostItem(HOSTILE, 1.0, 0.0, -1.0),),
        worsened=1,
        error_ids=SideNames((HOSTILE,), (HOSTILE,)),
    )
    text = render(hostile)
    assert "\x1b" not in text
    assert "\n# head" not in text
    if render is not render_comparison_text:
        assert "<script" not in text
        assert "[x](" not in text


def test_graded_scores_are_told_by_improved_and_worsened():
    graded = compared(gained=None, lost=None, both_right=None, both_wrong=None)
    for text in (render_comparison_markdown(graded).decode(), render_comparison_text(graded)):
        assert "improved" in text
        assert "gained" not in text.replace("Gained and lost", "")


def test_what_is_missing_is_said_and_not_left_blank():
    nothing = compared(
        n=0, delta=None, interval=None, interval_method=None, p_value=None, mde=None, worst=()
    )
    text = render_comparison_text(nothing)
    assert text.count("not measured") == 4
    assert "Worst regressions" not in text


def test_long_lists_are_cut_and_counted():
    many = tuple(f"q{i:03d}" for i in range(45))
    long = compared(unpaired_ids=SideNames(many, ()), worsened=300)
    assert "Only here: base" in render_comparison_text(long)
    assert "and 35 more" in render_comparison_text(long)
    assert "and 290 more" in render_comparison_text(long)
    markdown = render_comparison_markdown(long).decode()
    assert "- 25 more" in markdown
    assert "290 more rows" in markdown


def test_clusters_are_named():
    grouped = compared(clusters=Clusters("doc", 12, 9, 0))
    assert "clusters by doc" in render_comparison_text(grouped)
