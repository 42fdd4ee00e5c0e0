"""The real logs of other tools, where their folder lies beside the repository."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.samples.importers.peer_shapes import lost_and_gained

from gatemark.samples.importer import Imported, ReadOptions, import_files, to_record
from gatemark.samples.records import Sample

REPOSITORY = Path(__file__).parents[3]
LOGS = REPOSITORY.parent / "shared" / "peer-logs"

pytestmark = pytest.mark.skipif(
    not LOGS.is_dir(), reason="no folder ../shared/peer-logs with real logs beside the repository"
)
BASELINE_WRONG = {f"add-{number:03d}" for number in range(0, 20, 5)}
CANDIDATE_WRONG = {f"add-{number:03d}" for number in range(0, 20, 4)}
EXPECTED = {
    "inspect json": (
        ("inspect_0.3.285_success_wrong5.json",),
        None,
        "match",
        BASELINE_WRONG,
        set(),
    ),
    "inspect zstd": (
        ("inspect_0.3.285_success_wrong4_zstd.eval",),
        None,
        "match",
        CANDIDATE_WRONG,
        set(),
    ),
    "inspect deflate": (
        ("inspect_0.3.120_success_wrong4_deflate.eval",),
        None,
        "includes",
        CANDIDATE_WRONG,
        set(),
    ),
    "lm-eval": (
        (
            "lm_eval_0.4.13_baseline_results.json",
            "lm_eval_0.4.13_baseline_samples_tiny_gen.jsonl",
        ),
        None,
        "exact_match/strict-match",
        BASELINE_WRONG,
        set(),
    ),
    "promptfoo baseline": (
        ("promptfoo_0.121.20_pair_with_errors.json",),
        "baseline",
        "success",
        BASELINE_WRONG,
        {"add-007"},
    ),
    "promptfoo candidate": (
        ("promptfoo_0.121.20_pair_with_errors.json",),
        "candidate",
        "correct",
        CANDIDATE_WRONG,
        {"add-007"},
    ),
    "mlflow": (
        ("mlflow_3.17.2_result_df_baseline.json",),
        None,
        "exact",
        BASELINE_WRONG,
        set(),
    ),
    "pydantic-evals": (
        ("pydantic_evals_2.62.0_baseline.json",),
        None,
        "EqualsExpected",
        BASELINE_WRONG,
        {"add-013"},
    ),
}


def imported_from(*names: str, arm: str | None = None) -> Imported:
    (imported,) = import_files([LOGS / name for name in names], options=ReadOptions(arm=arm))
    return imported


@pytest.mark.parametrize(
    ("names", "arm", "score", "wrong", "errored"), EXPECTED.values(), ids=EXPECTED
)
def test_a_real_log_gives_the_scripted_rights_wrongs_and_errors(names, arm, score, wrong, errored):
    imported = imported_from(*names, arm=arm)
    assert [sample.id for sample in imported.samples] == [f"add-{n:03d}" for n in range(20)]
    assert {sample.id for sample in imported.samples if sample.error} == errored
    assert imported.errored_count == len(errored)
    found = {s.id for s in imported.samples if not s.error and s.scores[score] == 0}
    assert found == wrong - errored
    assert imported.refused == ()
    assert all(check.agrees for check in imported.checks)
    for sample in imported.samples:
        msgspec.convert(to_record(sample), Sample)


def test_the_deepeval_log_is_wrong_where_its_own_verdicts_say():
    imported = imported_from("deepeval_4.3.1_test_run.json")
    assert len(imported.samples) == 20
    assert sum(sample.scores["success"] == 0 for sample in imported.samples) == 5
    assert all(check.agrees for check in imported.checks)


def test_the_promptfoo_pair_shows_four_lost_and_three_gained_over_nineteen():
    name = "promptfoo_0.121.20_pair_with_errors.json"
    base, cand = imported_from(name, arm="baseline"), imported_from(name, arm="candidate")
    assert lost_and_gained(base, cand, "success") == (19, 4, 3)


@pytest.mark.parametrize(
    "candidate",
    ["inspect_0.3.285_success_wrong4_zstd.eval", "inspect_0.3.120_success_wrong4_deflate.eval"],
)
def test_the_inspect_pairs_show_four_lost_and_three_gained_over_twenty(candidate):
    base = imported_from("inspect_0.3.285_success_wrong5.json")
    assert lost_and_gained(base, imported_from(candidate), "match") == (20, 4, 3)


def test_the_pydantic_log_says_what_its_rate_is_over_all_cases():
    notes = imported_from("pydantic_evals_2.62.0_baseline.json").notes
    assert any("0.789474 over 19" in note and "over all it is 0.75" in note for note in notes)
