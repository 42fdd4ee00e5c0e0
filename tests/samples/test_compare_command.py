from __future__ import annotations

import gzip
import io
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
import zstandard
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from tests.samples.importers import peer_shapes as shapes

Run = Callable[..., Any]
Write = Callable[..., Path]

CONTRACT = {
    *("n", "both_right", "both_wrong", "gained", "lost", "delta", "interval", "p_value", "mde"),
    *("errors", "unpaired", "verdict"),
}
LOGS = Path(__file__).parents[2].parent / "shared" / "peer-logs"
BASE, CAND = shapes.BASELINE, shapes.CANDIDATE


def sample(number: object, score: float | None = 1.0, **more: Any) -> dict[str, Any]:
    record = {"schema": "gatemark.sample/1", "id": f"q{number}", "scores": {"exact": score}}
    return record | more


def errored(number: object) -> dict[str, Any]:
    return sample(number, scores={}, error={"kind": "Timeout", "message": "too slow"})


def scored(scores: list[Any], **more: Any) -> list[dict[str, Any]]:
    return [sample(number, score, **more) for number, score in enumerate(scores)]


@pytest.fixture
def compare(gatemark: Run, write_jsonl: Write) -> Run:
    """Compare two lists of records, as JSON."""

    def run(base: list[Any], cand: list[Any], *arguments: object) -> Any:
        files = (write_jsonl("base.jsonl", base), write_jsonl("cand.jsonl", cand))
        return gatemark("compare", *files, "--json", *arguments)

    return run


def test_every_key_of_the_contract_is_there(compare: Run) -> None:
    ran = compare(scored([1, 1, 0, 0]), scored([1, 0, 1, 0]))
    found = ran.json
    assert set(found) >= CONTRACT
    assert (found["both_right"], found["both_wrong"], found["gained"], found["lost"]) == (1,) * 4
    assert (found["n"], found["delta"], found["p_value"]) == (4, 0.0, 1.0)
    assert found["errors"] == found["unpaired"] == {"base": 0, "cand": 0}
    low, high = found["interval"]
    assert -1 <= low < 0 < high <= 1
    assert found["score"] == "exact"


def test_exit_0_when_a_drop_is_ruled_out(compare: Run) -> None:
    ran = compare(scored([1, 0] * 200), scored([1, 0] * 200))
    assert (ran.code, ran.json["verdict"], ran.json["blockers"]) == (0, "pass", [])
    assert "no worse by more than 0.05" in ran.json["reason"]


def test_exit_0_when_the_candidate_is_significantly_better(compare: Run) -> None:
    ran = compare(scored([0] * 12 + [1] * 8), scored([1] * 20))
    assert (ran.code, ran.json["verdict"]) == (0, "pass")
    assert ran.json["gained"] == 12


def test_exit_1_when_the_candidate_is_significantly_worse(compare: Run) -> None:
    ran = compare(scored([1] * 20), scored([0] * 10 + [1] * 10))
    assert (ran.code, ran.json["verdict"]) == (1, "fail")
    assert ran.json["reason"].startswith("exact -0.5")
    assert "significantly worse, p 0.001953 < 0.05" in ran.json["reason"]


def test_exit_2_for_bad_input_with_its_place(compare: Run) -> None:
    ran = compare(scored([1, 0]), [sample(0), '{"schema": "gatemark.sample/1", "id": 3}'])
    assert ran.code == 2
    assert "cand.jsonl:2: got 3, expected string at $.id" in ran.err
    assert ran.out == ""


def test_exit_3_when_too_few_items_show_anything(compare: Run) -> None:
    ran = compare(scored([1, 0] * 5), scored([1, 0] * 5))
    assert (ran.code, ran.json["verdict"]) == (3, "inconclusive")
    assert "neither shown nor ruled out; 10 items can show" in ran.json["reason"]


@pytest.mark.parametrize(
    ("margin", "verdict"),
    [(0.01, "fail"), (0.02, "inconclusive"), (0.05, "inconclusive"), (0.3, "pass")],
)
def test_with_a_margin_the_verdict_is_non_inferiority(
    compare: Run, margin: float, verdict: str
) -> None:
    ran = compare(scored([1] * 200), scored([0] * 9 + [1] * 191), "--margin", margin)
    drop = ran.json["non_inferiority"]
    assert (drop["margin"], drop["stated"], drop["drop"]) == (margin, True, 0.045)
    assert 0 < drop["lower"] < 0.045
    assert 0.05 < drop["upper"] < 0.3
    assert ran.json["verdict"] == drop["outcome"] == verdict


def test_a_significant_drop_within_the_margin_passes_only_with_the_margin(compare: Run) -> None:
    base, cand = scored([1] * 1000), scored([0] * 10 + [1] * 990)
    assert compare(base, cand).code == 1
    assert compare(base, cand, "--margin", "0.03").code == 0


def test_a_stricter_alpha_widens_the_interval(compare: Run) -> None:
    base, cand = scored([1] * 30), scored([0] * 7 + [1] * 23)
    loose, strict = (compare(base, cand, "--alpha", alpha).json for alpha in (0.05, 0.01))
    assert (loose["verdict"], strict["verdict"]) == ("fail", "inconclusive")
    assert strict["interval_level"] == 0.99
    assert strict["interval"][0] < loose["interval"][0]
    assert strict["mde"] > loose["mde"]


@pytest.mark.parametrize("seed", range(8))
def test_right_or_wrong_scores_match_statsmodels(compare: Run, seed: int) -> None:
    draw = random.Random(seed)
    n = draw.randint(20, 300)
    rates = draw.random(), draw.random()
    base, cand = ([float(draw.random() < rate) for _ in range(n)] for rate in rates)
    found = compare(scored(base), scored(cand)).json
    table = [
        [sum((b, c) == (i, j) for b, c in zip(base, cand, strict=True)) for j in (1, 0)]
        for i in (1, 0)
    ]
    assert found["p_value"] == pytest.approx(mcnemar(table, exact=True).pvalue)
    assert found["delta"] == pytest.approx(np.mean(cand) - np.mean(base))
    assert [[found["both_right"], found["lost"]], [found["gained"], found["both_wrong"]]] == table


@pytest.mark.parametrize("seed", range(4))
def test_graded_scores_match_scipy(compare: Run, seed: int) -> None:
    rng = np.random.default_rng(seed)
    base = rng.uniform(0, 1, 60)
    cand = np.clip(base + rng.normal(0.02, 0.1, 60), 0, 1)
    found = compare(scored(base.tolist()), scored(cand.tolist()), "--seed", seed).json
    deltas = cand - base
    expected = stats.bootstrap((deltas,), np.mean, rng=np.random.default_rng(99), n_resamples=9999)
    flips = stats.permutation_test(
        (deltas,), np.mean, permutation_type="samples", rng=7, n_resamples=9999
    )
    width = expected.confidence_interval.high - expected.confidence_interval.low
    assert found["interval"] == pytest.approx(expected.confidence_interval, abs=0.1 * width)
    assert found["p_value"] == pytest.approx(flips.pvalue, abs=0.02)
    assert found["delta"] == pytest.approx(deltas.mean())
    assert found["interval_method"] == "bca"
    assert found["lost"] is found["both_right"] is None
    assert found["worsened"] == (deltas < 0).sum()


def test_clusters_match_a_cluster_robust_regression(compare: Run) -> None:
    rng = np.random.default_rng(3)
    clusters = np.repeat(np.arange(12), 5)
    base = (rng.random(60) < 0.8).astype(float)
    cand = base * (rng.random(12) < 0.7)[clusters]
    rows = [
        [
            sample(i, s, tags={"doc": f"d{c}"})
            for i, (s, c) in enumerate(zip(side, clusters, strict=True))
        ]
        for side in (base.tolist(), cand.tolist())
    ]
    found = compare(*rows, "--cluster", "doc").json
    fit = sm.OLS(cand - base, np.ones(60)).fit(
        cov_type="cluster",
        cov_kwds={"groups": clusters, "use_correction": False},
    )
    error = float(fit.bse[0]) * np.sqrt(12 / 11)
    assert found["p_value"] == pytest.approx(2 * stats.t.sf(abs(found["delta"]) / error, 11))
    assert found["clusters"] == {"key": "doc", "count": 12, "largest": 5, "missing": 0}
    assert found["method"] == "cluster-robust t"
    assert found["lost"] is not None
    by_field = [
        [row | {"cluster": row["tags"]["doc"], "tags": {}} for row in side] for side in rows
    ]
    assert compare(*by_field, "--cluster", "cluster").json["p_value"] == found["p_value"]


def grouped(size: int, count: int = 400) -> list[dict[str, Any]]:
    return [sample(n, 1.0, cluster=f"talk {n // size}") for n in range(count)]


def test_clusters_that_the_samples_name_count_without_being_asked_for(compare: Run) -> None:
    plain = scored([1.0] * 400)
    assert compare(plain, plain).code == 0
    for base, cand in ((grouped(50), grouped(50)), (plain, grouped(50)), (grouped(50), plain)):
        ran = compare(base, cand)
        assert (ran.code, ran.json["method"]) == (3, "cluster-robust t")
        assert ran.json["clusters"] == {"key": "cluster", "count": 8, "largest": 50, "missing": 0}
        assert any("8 clusters that the samples name" in told for told in ran.json["caveats"])


def test_a_cluster_for_each_item_changes_nothing(compare: Run) -> None:
    plain, alone = scored([1.0, 0.0] * 200), grouped(1)
    for row, other in zip(alone, plain, strict=True):
        row["scores"] = other["scores"]
    found, wanted = compare(alone, alone).json, compare(plain, plain).json
    assert (found["method"], found["clusters"]) == (wanted["method"], None)
    assert found["interval"] == wanted["interval"]


def test_items_without_a_cluster_stand_alone_unless_clusters_are_asked_for(compare: Run) -> None:
    rows = [*grouped(2, 200), *scored([1.0] * 400)[200:]]
    ran = compare(rows, rows)
    assert (ran.code, ran.json["clusters"]["count"], ran.json["clusters"]["missing"]) == (0, 100, 0)
    assert compare(rows, rows, "--cluster", "cluster").code == 3


def test_items_that_repeat_an_input_count_once(compare: Run) -> None:
    def asked(times: int, **more: Any) -> list[dict[str, Any]]:
        return [sample(n, 1.0, input=f"question {n // times}", **more) for n in range(400)]

    ran = compare(asked(20), asked(20))
    assert (ran.code, ran.json["n"]) == (3, 20)
    assert (
        "380 ids repeat the input of another id; each input counts once, by its mean"
        in ran.json["caveats"]
    )
    ran = compare(asked(1), asked(1))
    assert (ran.code, ran.json["n"]) == (0, 400)
    assert not [words for words in ran.json["caveats"] if "input" in words]


def test_a_document_that_its_tool_tells_apart_is_another_input(compare: Run) -> None:
    rows = [sample(n, 1.0, input="Is it so?", tags={"doc_hash": f"d{n}"}) for n in range(400)]
    assert compare(rows, rows).json["n"] == 400


def test_a_candidate_cannot_say_that_its_losses_and_gains_are_one_input(compare: Run) -> None:
    base = [sample(n, 1.0) for n in range(200)]
    lost = [sample(n, float(n >= 20), input="one") for n in range(200)]
    ran = compare(base, lost)
    assert ran.code in {1, 3}
    assert (
        compare([sample(n) for n in range(200)], [sample(n, input="one") for n in range(200)]).code
        == 3
    )


def test_an_item_without_its_cluster_holds_the_verdict(compare: Run) -> None:
    rows = [sample(i, tags={"doc": f"d{i % 100}"}) for i in range(400)]
    assert compare(rows, rows, "--cluster", "doc").code == 0
    bare = [*rows[:-1], sample(399)]
    ran = compare(bare, bare, "--cluster", "doc")
    assert ran.code == 3
    assert ran.json["reason"] == "1 items have no cluster: q399"


def test_errors_stay_in_the_account_and_never_pass(compare: Run) -> None:
    base = scored([1] * 400)
    cand = [errored(0), *scored([1] * 400)[1:]]
    ran = compare(base, cand)
    found = ran.json
    assert (ran.code, found["verdict"]) == (3, "inconclusive")
    assert (found["n"], found["errors"]) == (399, {"base": 0, "cand": 1})
    assert found["reason"] == "1 of 400 candidate samples errored: q0"
    assert found["error_ids"]["cand"] == ["q0"]
    assert found["cand"]["mean"] == 1.0
    assert found["cand"]["mean_over_all"] == pytest.approx(399 / 400)
    assert found["delta"] == 0
    assert found["delta_over_all"] == pytest.approx(-1 / 400)


def test_a_candidate_that_errored_everywhere_is_inconclusive(compare: Run) -> None:
    ran = compare(scored([1] * 30), [errored(i) for i in range(30)])
    found = ran.json
    assert (ran.code, found["n"], found["delta"], found["p_value"]) == (3, 0, None, None)
    assert found["reason"] == "no item is scored by exact on both sides"
    assert found["cand"]["mean_over_all"] == 0.0


def test_a_significant_loss_fails_in_spite_of_errors(compare: Run) -> None:
    ran = compare(scored([1] * 21), [*scored([0] * 20), errored(20)])
    assert ran.code == 1
    assert any("errored" in blocker for blocker in ran.json["blockers"])


def test_a_null_score_is_unscored_and_holds(compare: Run) -> None:
    ran = compare(scored([1] * 300), scored([1] * 299 + [None]))
    assert ran.code == 3
    assert ran.json["unscored"] == {"base": 0, "cand": 1}
    assert ran.json["unscored_ids"]["cand"] == ["q299"]


def test_unequal_ids_are_listed_and_hold(compare: Run) -> None:
    ran = compare(scored([1] * 300), [*scored([1] * 299), sample("-new")])
    found = ran.json
    assert (ran.code, found["n"]) == (3, 299)
    assert found["unpaired"] == {"base": 1, "cand": 1}
    assert found["unpaired_ids"] == {"base": ["q299"], "cand": ["q-new"]}
    assert "1 of 300 base samples are not on the other side: q299" in found["blockers"]


def test_no_shared_id_is_inconclusive(compare: Run) -> None:
    ran = compare(scored([1] * 3), [sample(f"x{i}") for i in range(3)])
    assert (ran.code, ran.json["n"], ran.json["verdict"]) == (3, 0, "inconclusive")


def test_other_targets_mean_other_items(compare: Run) -> None:
    base, cand = (scored([1] * 300, target=target, input="2+2") for target in ("4", "5"))
    ran = compare(base, cand)
    assert ran.code == 3
    assert ran.json["reason"].startswith("300 paired samples have another target: q0, q1")


def test_another_input_is_only_a_caveat(compare: Run) -> None:
    base, cand = (
        [sample(n, input=f"{text} {n}+2?") for n in range(300)] for text in ("Q:", "What is")
    )
    ran = compare(base, cand)
    assert ran.code == 0
    assert "300 paired samples have another input" in ran.json["caveats"]


def test_epochs_of_an_item_count_once_by_their_mean(compare: Run) -> None:
    def rows(right: int) -> list[dict[str, Any]]:
        return [
            sample(i, float(epoch <= right), epoch=epoch) for i in range(10) for epoch in (1, 2, 3)
        ]

    found = compare(rows(3), rows(1)).json
    assert (found["n"], found["epochs"], found["worsened"]) == (10, 3, 10)
    assert found["delta"] == pytest.approx(-2 / 3)
    assert found["method"] == "BCa bootstrap and sign flips"
    assert found["lost"] is None


def test_an_item_with_one_errored_epoch_has_no_mean(compare: Run) -> None:
    rows = [sample(i, 1.0, epoch=epoch) for i in range(200) for epoch in (1, 2)]
    broken = [*rows[:-1], errored(199) | {"epoch": 2}]
    found = compare(rows, broken).json
    assert (found["n"], found["errors"]["cand"]) == (199, 1)
    assert found["error_ids"]["cand"] == ["q199 (epoch 2)"]
    assert found["cand"]["mean_over_all"] == pytest.approx(399 / 400)


def test_a_repeated_sample_is_refused_but_another_epoch_is_not(compare: Run) -> None:
    ran = compare([sample(1), sample(1)], [sample(1)])
    assert ran.code == 2
    assert "base.jsonl:2: id 'q1', epoch 1 was seen before on line 1" in ran.err
    rows = [sample(1), sample(1, epoch=2)]
    assert compare(rows, rows).code == 3


def test_packed_files_and_standard_input_are_read(
    gatemark: Run, write_jsonl: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = write_jsonl("a.jsonl", scored([1, 0] * 200))
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    frame = tmp_path / "a.zst"
    frame.write_bytes(zstandard.compress(plain.read_bytes()))
    assert gatemark("compare", packed, frame).code == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(plain.read_bytes())))
    assert gatemark("compare", plain, "-").code == 0


def test_the_order_of_lines_changes_nothing(compare: Run) -> None:
    rng = random.Random(1)
    base, cand = (scored([rng.random() for _ in range(50)]) for _ in range(2))
    first = compare(base, cand).json
    rng.shuffle(cand)
    second = compare(base, cand).json
    assert second.pop("cand")["digest"] != first.pop("cand")["digest"]
    assert first == second


def test_several_scores_need_a_name(compare: Run) -> None:
    rows = [sample(i, scores={"exact": 1, "style": 0.5}) for i in range(3)]
    ran = compare(rows, rows)
    assert (ran.code, ran.out) == (2, "")
    assert "both files have several scores; choose one with --score: exact, style" in ran.err
    assert compare(rows, rows, "--score", "style").json["score"] == "style"
    unknown = compare(rows, rows, "--score", "tone")
    assert unknown.code == 2
    assert "has no score 'tone' (scores: exact, style)" in unknown.err


def test_files_without_a_shared_score_are_refused(compare: Run) -> None:
    ran = compare(scored([1]), [sample(0, scores={"style": 1})])
    assert ran.code == 2
    assert "the files share no score" in ran.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--cluster", "doc"), "no sample has a 'doc' to cluster by"),
        (("--id", "doc.id"), "--id is for other tools' logs"),
        (("--base-arm", "a"), "has no arms; leave out --base-arm"),
        (("--alpha", "0"), "'--alpha'"),
        (("--alpha", "nan"), "not a finite number"),
        (("--margin", "1"), "'--margin'"),
        (("--resamples", "5"), "'--resamples'"),
        (("--from", "excel"), "known: chat-log, csv, deepeval, helm, inspect"),
        (("-o", "x.html"), "must end in .json, .md"),
    ],
)
def test_senseless_options_are_usage_errors(
    compare: Run, arguments: tuple[str, ...], words: str
) -> None:
    ran = compare(scored([1, 0]), scored([0, 1]), *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def test_a_margin_needs_scores_inside_0_and_1(compare: Run) -> None:
    base, cand = scored([10, 20, 30]), scored([11, 25, 31])
    ran = compare(base, cand, "--margin", "0.1")
    assert ran.code == 2
    assert "--margin needs scores inside [0, 1]; exact ranges from 10 to 31" in ran.err
    found = compare(base, cand).json
    assert found["non_inferiority"] is found["delta_over_all"] is None
    assert found["verdict"] == "inconclusive"


def test_scores_of_any_scale_can_fail_or_pass_by_significance(compare: Run) -> None:
    low, high = (
        scored([float(i) for i in range(40)]),
        scored([float(i + 3 + i % 2) for i in range(40)]),
    )
    assert compare(low, high).code == 0
    assert compare(high, low).code == 1


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "the file is empty"),
        (["what is this"], "neither gatemark.sample/1 nor a log in a known format"),
        (['{"a": 1}'], "neither gatemark.sample/1 nor a log in a known format"),
        (
            ['{"schema":"gatemark.sample/1","id":"q0","scores":{"exact":NaN}}', sample(1)],
            "cand.jsonl:1: not JSON: NaN is not a JSON number",
        ),
        (["{", sample(1)], "cand.jsonl:1: not JSON"),
        (
            ['{"schema":"gatemark.sample/1","id":"q0","scores":{"exact":1,"exact":0}}'],
            'cand.jsonl:1: key "exact" appears more than once',
        ),
    ],
)
def test_garbage_is_one_line_with_a_place(compare: Run, lines: list[Any], words: str) -> None:
    ran = compare(scored([1, 0]), lines)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_missing_file_is_named(gatemark: Run, tmp_path: Path, write_jsonl: Write) -> None:
    ran = gatemark("compare", write_jsonl("a.jsonl", scored([1])), tmp_path / "gone.jsonl")
    assert ran.code == 2
    assert ran.err == f"gatemark: {tmp_path / 'gone.jsonl'}: No such file or directory\n"


def log_files(tool: str, folder: Path) -> tuple[Path, Path, tuple[str, ...]]:
    """The scripted pair as one tool writes it: two files and the options to read them with."""
    contents: dict[str, tuple[Any, Any, tuple[str, ...]]] = {
        "inspect": (shapes.inspect_log(BASE), shapes.inspect_log(CAND), ()),
        "inspect eval": (
            shapes.zipped(shapes.inspect_members(shapes.inspect_log(BASE)), 8),
            shapes.zipped(shapes.inspect_members(shapes.inspect_log(CAND)), 93),
            (),
        ),
        "promptfoo": (
            shapes.promptfoo_log(),
            shapes.promptfoo_log(),
            ("--base-arm", "baseline", "--cand-arm", "candidate"),
        ),
        "deepeval": (shapes.deepeval_log(BASE), shapes.deepeval_log(CAND), ("--score", "Exact")),
        "mlflow": (
            shapes.mlflow_rows(BASE, "run-a"),
            shapes.mlflow_rows(CAND, "run-b"),
            ("--score", "exact"),
        ),
        "pydantic-evals": (
            shapes.pydantic_report(BASE),
            shapes.pydantic_report(CAND),
            ("--score", "Equals"),
        ),
        "lm-eval": (
            shapes.lm_eval_lines(shapes.lm_eval_rows(BASE)).data,
            shapes.lm_eval_lines(shapes.lm_eval_rows(CAND)).data,
            ("--score", "exact_match/strict"),
        ),
    }
    base, cand, options = contents[tool]
    paths = []
    for name, content in (("base", base), ("cand", cand)):
        (folder / name).mkdir()
        path = folder / name / ("samples_tiny_gen.jsonl" if tool == "lm-eval" else "log.json")
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        paths.append(path)
    return paths[0], paths[1], options


@pytest.mark.parametrize(
    ("tool", "n", "errors"),
    [
        ("inspect", 20, 0),
        ("inspect eval", 20, 0),
        ("promptfoo", 19, 1),
        ("deepeval", 20, 0),
        ("mlflow", 20, 0),
        ("pydantic-evals", 19, 1),
        ("lm-eval", 20, 0),
    ],
)
def test_the_scripted_pair_of_every_tool_lost_four_and_gained_three(
    tool: str, n: int, errors: int, gatemark: Run, tmp_path: Path
) -> None:
    base, cand, options = log_files(tool, tmp_path)
    ran = gatemark("compare", base, cand, "--json", *options)
    found = ran.json
    assert (found["lost"], found["gained"], found["p_value"]) == (4, 3, 1.0)
    assert (found["n"], found["errors"]) == (n, {"base": errors, "cand": errors})
    assert (ran.code, found["verdict"]) == (3, "inconclusive")
    assert {change["id"] for change in found["worst"]} == {f"add-{i:03d}" for i in (4, 8, 12, 16)}


def test_imported_samples_compare_like_the_logs(gatemark: Run, tmp_path: Path) -> None:
    base, cand, options = log_files("promptfoo", tmp_path)
    direct = gatemark("compare", base, cand, "--json", *options).json
    for path, arm in ((base, "baseline"), (cand, "candidate")):
        ran = gatemark("import", path, "--arm", arm, "-o", tmp_path / f"{arm}.jsonl")
        assert ran.code == 0
    files = (tmp_path / "baseline.jsonl", tmp_path / "candidate.jsonl")
    again = gatemark("compare", *files, "--score", "success", "--json").json
    for key in (*CONTRACT, "worst", "error_ids", "blockers"):
        assert again[key] == direct[key]


def test_an_unnamed_arm_asks_for_the_option_of_its_side(gatemark: Run, tmp_path: Path) -> None:
    base, cand, _ = log_files("promptfoo", tmp_path)
    ran = gatemark("compare", base, cand, "--base-arm", "baseline")
    assert ran.code == 2
    assert "choose one with --cand-arm, by name or number: 1: 'baseline', 2: 'candidate'" in ran.err
    unknown = gatemark("compare", base, cand, "--base-arm", "best", "--cand-arm", "candidate")
    assert "has no arm 'best'" in unknown.err


def test_different_task_hashes_cannot_be_compared(gatemark: Run, tmp_path: Path) -> None:
    files = []
    for name, every, task_hash in (("base", BASE, "aa"), ("cand", CAND, "bb")):
        folder = tmp_path / name
        folder.mkdir()
        stamp = "2026-11-15T18-19-29.000000"
        samples = folder / f"samples_tiny_gen_{stamp}.jsonl"
        samples.write_bytes(shapes.lm_eval_lines(shapes.lm_eval_rows(every)).data)
        results = shapes.lm_eval_results(every) | {"task_hashes": {"tiny_gen": task_hash * 32}}
        (folder / f"results_{stamp}.json").write_text(json.dumps(results))
        files.append(samples)
    ran = gatemark("compare", *files, "--score", "exact_match/strict", "--json")
    assert ran.code == 3
    assert ran.json["reason"].startswith("the sides ran different tasks: task_hash is aaaa")
    assert "bbbb" in ran.json["reason"]


def test_other_documents_under_the_same_ids_cannot_be_compared(
    gatemark: Run, tmp_path: Path
) -> None:
    base, cand, options = log_files("lm-eval", tmp_path)
    rows = [row | {"doc_hash": "f" * 64} for row in shapes.lm_eval_rows(CAND)]
    cand.write_bytes(shapes.lm_eval_lines(rows).data)
    ran = gatemark("compare", base, cand, "--json", *options)
    assert ran.code == 3
    assert ran.json["reason"].startswith("20 paired samples have another doc_hash")


def test_refused_rows_of_a_log_hold_the_verdict(gatemark: Run, tmp_path: Path) -> None:
    base, cand, options = log_files("lm-eval", tmp_path)
    with cand.open("ab") as stream:
        stream.write(b"{broken\n")
    ran = gatemark("compare", base, cand, "--json", *options)
    assert ran.json["refused"] == {"base": 0, "cand": 1}
    assert any("1 candidate rows could not be read" in b for b in ran.json["blockers"])


def test_outputs_repeat_the_comparison(compare: Run, tmp_path: Path) -> None:
    files = (tmp_path / "deep" / "c.json", tmp_path / "c.md")
    ran = compare(scored([1] * 20), scored([0] * 10 + [1] * 10), "-o", files[0], "-o", files[1])
    assert json.loads(files[0].read_text()) == ran.json
    assert files[1].read_text().startswith("**FAIL** `exact` — exact -0.5")


def test_people_read_the_verdict_first(gatemark: Run, write_jsonl: Write) -> None:
    base = write_jsonl("a.jsonl", scored([1] * 20))
    cand = write_jsonl("b.jsonl", [*scored([0] * 12 + [1] * 7), errored(19)])
    ran = gatemark("compare", base, cand)
    assert ran.code == 1
    assert ran.out.startswith("FAIL  exact -0.6316")
    for words in ("lost (right, now wrong)         12", "Worst regressions", "Errored: candidate"):
        assert words in ran.out
    assert "and 2 more" in ran.out


@pytest.mark.skipif(not LOGS.is_dir(), reason="no folder ../shared/peer-logs beside the repository")
@pytest.mark.parametrize(
    ("base", "cand", "options", "n"),
    [
        (
            "inspect_0.3.285_success_wrong5.json",
            "inspect_0.3.285_success_wrong4_zstd.eval",
            (),
            20,
        ),
        (
            "inspect_0.3.285_success_wrong5.json",
            "inspect_0.3.120_success_wrong4_deflate.eval",
            ("--score", "match"),
            20,
        ),
        (
            "promptfoo_0.121.20_pair_with_errors.json",
            "promptfoo_0.121.20_pair_with_errors.json",
            ("--base-arm", "baseline", "--cand-arm", "candidate"),
            19,
        ),
    ],
)
def test_real_logs_lost_four_and_gained_three(
    base: str, cand: str, options: tuple[str, ...], n: int, gatemark: Run
) -> None:
    found = gatemark("compare", LOGS / base, LOGS / cand, "--json", *options).json
    assert (found["n"], found["lost"], found["gained"], found["p_value"]) == (n, 4, 3, 1.0)


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize(
    "rename",
    [
        lambda name, n: name,
        lambda name, n: name[: n % 5].upper() + name[n % 5 :],
        lambda name, n: name + "\u200b" * (n // 8),
        lambda name, n: name.replace("t", "\uff54") if n % 2 else name,
    ],
)
def test_a_cluster_is_one_in_every_spelling_and_whatever_copies_say(
    compare: Run, rename: Callable[[str, int], str], copied: bool
) -> None:
    rows = [
        sample(n, 1.0, input=f"question {n}", cluster=rename(f"talk-{n % 8}", n)) for n in range(80)
    ]
    if copied:
        rows += [row | {"id": f"z{n}", "cluster": f"own-{n}"} for n, row in enumerate(rows)]
    ran = compare(rows, rows, "--margin", "0.08")
    assert (ran.code, ran.json["clusters"]["count"]) == (3, 8)
