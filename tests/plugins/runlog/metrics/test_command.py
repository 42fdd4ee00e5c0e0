from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.runlog.worlds import World, packed, small_world

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.plugins.runlog.cli import RUNLOG_VERBS
from gatemark.plugins.runlog.examine import examine_metrics_files
from gatemark.plugins.runlog.records import names
from gatemark.workspace import Workspace

Metrics = Callable[..., Any]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return small_world(tmp_path / "world")


@pytest.fixture
def metrics(gatemark: Callable[..., Any]) -> Metrics:
    """Measure a world with its own lexicon and configurations."""

    def run(world: World, *more: object) -> Any:
        return gatemark(
            "runlog",
            "metrics",
            "--runs",
            world.runs,
            "--traces",
            world.traces,
            "--configs",
            world.configs,
            "--lexicon",
            world.folder / "lexicon.jsonl",
            "--out",
            world.folder / "metrics",
            "--bootstrap-samples",
            "200",
            "-j",
            "1",
            *more,
        )

    return run


def rows(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "per_case.metrics.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_metrics_of_a_small_world_are_what_one_counts_by_hand(
    world: World, metrics: Metrics, tmp_path: Path
) -> None:
    ran = metrics(world, "--json", "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    first = rows(tmp_path / "out")[0]
    assert (first["case_id"], first["variant_id"]) == ("case-0", "V0")
    # The trace of case-0 says fever and cough; the summaries say fever, cough and sepsis.
    assert first["m4_trace_cui_count"] == 2
    assert first["m4_trace_coverage"] == 1.0
    assert first["m5_unsupported_global_rate"] == pytest.approx(1 / 3)
    # Summary 1 looks at "A cough too and rest.": fever and sepsis are not in it.
    assert first["m6a_mean"] == pytest.approx((0 + 2 / 3) / 2)
    # The summary before it said fever, so that only sepsis is left without support.
    assert first["m6b_mean"] == pytest.approx((0 + 1 / 3) / 2)
    assert first["m3_jaccards"] == [pytest.approx(1 / 3)]
    assert first["m8_summary_latency_ms_mean"] == 150.0
    assert first["m9_total_llm_ctu"] == 2 * 120 + 2 * 46
    assert first["flush_reason_counts"] == {"boundary_cue": 2}
    assert first["virtual_time_duration_ms"] == 500
    summary = ran.json
    assert summary["verdict"] == "pass"
    assert summary["n_cases"] == {"V0": 4, "V1": 4}
    assert summary["variants"]["V0"]["m6b"]["mean"] == pytest.approx(1 / 6)
    assert summary["score"]["value"] == pytest.approx(5 / 6)


def test_source_compatibility_joins_deltas_by_spaces_and_so_splits_words(
    world: World, metrics: Metrics, tmp_path: Path
) -> None:
    ran = metrics(world, "--compat", "source", "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    first = rows(tmp_path / "out")[0]
    # "I see fe" and "ver, " no longer make a fever.
    assert first["m4_trace_cui_count"] == 1
    assert first["m5_unsupported_global_rate"] == pytest.approx(2 / 3)
    provenance = json.loads((tmp_path / "out" / "metrics.provenance.json").read_text())
    assert provenance["settings"]["compat"] == "source"


def test_written_files_keep_their_own_schema(
    world: World, metrics: Metrics, gatemark: Callable[..., Any], tmp_path: Path
) -> None:
    assert metrics(world, "--out", tmp_path / "out").code == 0
    for name in ("per_case.metrics.jsonl", "aggregate.metrics.json"):
        checked = gatemark("validate", "--schema", "exaid.metrics", tmp_path / "out" / name)
        assert checked.code == 0, checked.err


def test_two_runs_and_two_processes_write_the_same_bytes(
    world: World, metrics: Metrics, tmp_path: Path
) -> None:
    for name, jobs in (("one", 1), ("two", 2)):
        assert metrics(world, "--out", tmp_path / name, "-j", jobs).code == 0
    for path in sorted((tmp_path / "one").iterdir()):
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_the_files_carry_the_end_of_the_last_trace_or_the_time_given(
    world: World, metrics: Metrics, tmp_path: Path
) -> None:
    assert metrics(world, "--out", tmp_path / "a").code == 0
    found = json.loads((tmp_path / "a" / "aggregate.metrics.json").read_text())
    assert found["computed_at"] == "2023-11-14T22:13:20.600Z"
    given = "2026-01-02T03:04:05Z"
    assert metrics(world, "--out", tmp_path / "b", "--computed-at", given).code == 0
    found = json.loads((tmp_path / "b" / "aggregate.metrics.json").read_text())
    assert found["computed_at"] == given
    assert metrics(world, "--computed-at", "today").code == 2


def test_provenance_says_what_really_ran(world: World, metrics: Metrics, tmp_path: Path) -> None:
    assert metrics(world, "--out", tmp_path / "out", "--max-k", "9").code == 0
    found = json.loads((tmp_path / "out" / "metrics.provenance.json").read_text())
    assert found["extractor"]["name"] == "lexicon"
    assert found["extractor"]["linker_name"] == "user_lexicon"
    assert found["extractor"]["digest"].startswith("sha256:")
    assert "pyahocorasick" in found["extractor"]["libraries"]
    assert found["extractor_differs_from_run_meta"] == {"V0": ["max_k"], "V1": ["max_k"]}
    assert found["dataset"]["trace_dataset_hash"] == world.dataset_hash
    assert set(found["configs"]["variant_configs"]) == {"V0", "V1"}


def test_a_gate_decides_the_exit_code_on_each_side_of_its_line(
    world: World, metrics: Metrics
) -> None:
    # M6b of V0 is exactly one sixth in every case.
    assert metrics(world, "--gate", "m6b_mean=0.17").code == 0
    failed = metrics(world, "--gate", "m6b_mean=0.16")
    assert failed.code == 1
    assert "m6b_mean must be <= 0.16, got 0.166667" in failed.out
    assert metrics(world, "--gate", "m6b_mean=0.16", "--judged", "V1").code == 0


def test_a_log_that_was_cut_off_cannot_improve_the_metrics(world: World, metrics: Metrics) -> None:
    path = world.log_path("case-1", "V0")
    kept = gzip.decompress(path.read_bytes()).splitlines(keepends=True)[:-1]
    path.write_bytes(gzip.compress(b"".join(kept), mtime=0))
    ran = metrics(world, "--gate", "m5_unsupported_global_rate=0.4")
    assert (ran.code, ran.out) == (2, "")
    assert "the log is incomplete: 2 decisions to summarize, but 1 summaries" in ran.err
    counted = metrics(world, "--on-bad-case", "exclude", "--gate", "m5_unsupported_global_rate=0.9")
    assert counted.code == 3, counted.err


@pytest.mark.parametrize(("variant", "kind"), [("V0", "flush"), ("V1", "summary")])
def test_a_log_that_was_cut_off_with_all_its_counts_fixed_is_refused(
    variant: str, kind: str, world: World, metrics: Metrics
) -> None:
    """Attack: the last turn is missing from the log, and nothing in the log says so."""
    world.last_seqs["case-1"] = 0
    world.add_log("case-1", variant, ("Fever.",))
    ran = metrics(world, "--judged", variant, "--gate", "m5_unsupported_global_rate=0.9")
    assert (ran.code, ran.out) == (2, "")
    assert f"3 pieces of text, from seq 6 to 8, are in no {kind}" in ran.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--gate", "m6b_mean"), "expected METRIC=BOUND"),
        (("--gate", "m6b_mean=nan"), "not a finite number"),
        (("--gate", "m11=1"), "unknown metric 'm11'"),
        (("--gate", "m1_update_count=1"), "neither side is better"),
        (("--score", "m2_output_ctu"), "score must be one of"),
        (("--extractor", "nobody"), "no extractor is called 'nobody'"),
        (("--extractor", "scispacy"), "takes no lexicon"),
        (("--stoplists", "nowhere"), "No such file"),
        (("--gate", "m6b_mean=30"), "m6b_mean is a share, so its bound must be in [0, 1], got 30"),
        (
            ("--gate", "m6b_mean=0.1", "--gate", "m6b_mean=0.9"),
            "--gate names m6b_mean more than once",
        ),
        (("--judged", "V7"), "no run logs of 'V7' to judge (measured: V0, V1)"),
        (("--variant", "V7"), "holds no run logs"),
        (("--timeline", "case-9"), "no log of 'case-9'"),
    ],
)
def test_a_call_that_makes_no_sense_writes_nothing(
    world: World, metrics: Metrics, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    ran = metrics(world, *options, "--out", tmp_path / "out")
    assert ran.code == 2
    assert message in ran.err
    assert not (tmp_path / "out").exists()


def refused(world: World, metrics: Metrics, tmp_path: Path, *messages: str) -> None:
    ran = metrics(world, "--out", tmp_path / "out")
    assert ran.code == 2, ran.out
    for message in messages:
        assert message in ran.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("field", "where"),
    [
        ("trace_dataset_hash", "the manifest says"),
        ("trace_file_hash", "the trace file says"),
        ("tokengate_config_hash", "the variant's configuration says"),
    ],
)
def test_a_log_made_under_other_hashes_is_refused(
    world: World, metrics: Metrics, tmp_path: Path, field: str, where: str
) -> None:
    world.add_log("case-1", "V0", ("Fever.",), **{field: digest_bytes(b"other")})
    refused(world, metrics, tmp_path, f"V0/case-1.jsonl.gz: {field} is", where)


def test_a_trace_with_other_content_than_the_manifest_says_is_refused(
    world: World, metrics: Metrics, tmp_path: Path
) -> None:
    path = world.traces / names.name_trace_file("case-2")
    path.write_bytes((world.traces / names.name_trace_file("case-0")).read_bytes())
    refused(world, metrics, tmp_path, "its content hashes to", "the manifest says")


def test_a_manifest_of_other_traces_is_refused(
    world: World, metrics: Metrics, tmp_path: Path
) -> None:
    other = small_world(tmp_path / "other", cases=6)
    world.manifest.write_bytes(other.manifest.read_bytes())
    refused(world, metrics, tmp_path, "trace_dataset_hash is", "the manifest says")


def test_a_log_of_a_case_outside_the_manifest_is_refused(
    world: World, metrics: Metrics, tmp_path: Path
) -> None:
    data = world.log_path("case-0", "V0").read_bytes()
    (world.runs / "V0" / "case-9.jsonl.gz").write_bytes(data)
    refused(world, metrics, tmp_path, "case 'case-9' is not in the manifest")


def test_a_log_under_another_name_is_refused(
    world: World, metrics: Metrics, tmp_path: Path
) -> None:
    data = world.log_path("case-0", "V0").read_bytes()
    world.log_path("case-1", "V0").write_bytes(data)
    refused(world, metrics, tmp_path, "case_id is case-0, its file name says case-1")


def test_a_log_in_another_variants_folder_is_refused(
    world: World, metrics: Metrics, tmp_path: Path
) -> None:
    data = world.log_path("case-0", "V1").read_bytes()
    world.log_path("case-0", "V0").write_bytes(data)
    refused(world, metrics, tmp_path, "variant_id is V1, its folder says V0")


def test_a_log_without_a_run_meta_is_refused(
    world: World, metrics: Metrics, tmp_path: Path
) -> None:
    world.write_log("case-1", "V0", [world.event("case-1", "V0", 0, "Fever.", (1, 3))])
    refused(world, metrics, tmp_path, "case-1.jsonl.gz:1")


def test_a_window_beyond_the_trace_is_refused(
    world: World, metrics: Metrics, tmp_path: Path
) -> None:
    records = [
        world.meta("case-1", "V0"),
        world.decision("case-1", "V0", 0, 3),
        world.event("case-1", "V0", 0, "Fever.", (1, 99)),
    ]
    world.write_log("case-1", "V0", records)
    refused(world, metrics, tmp_path, "ends at seq 99, the trace ends at 9")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ((1, {"end_seq": 99}), "tokengate_flush 0 ends at seq 99, the trace ends at 9"),
        ((3, {"end_seq": 99}), "case-1-V0-bd-000 ends at seq 99, the trace ends at 9"),
        ((5, {"start_seq": 99}), "case-1-V0-se-000 starts at seq 99, the trace ends at 9"),
        (
            (5, {"summary_ctu": -5}),
            "case-1.jsonl.gz:6: -5 is less than the minimum of 0 at $.summary_ctu",
        ),
        ((5, {"summary_ctu": 10**30}), "at $.summary_ctu"),
        ((5, {"llm_usage": {"prompt_ctu": -1}}), "at $.llm_usage.prompt_ctu"),
    ],
)
def test_a_log_with_a_place_or_a_size_that_cannot_be_is_refused(
    world: World,
    metrics: Metrics,
    tmp_path: Path,
    changed: tuple[int, dict[str, Any]],
    message: str,
) -> None:
    place, changes = changed
    path = world.log_path("case-1", "V0")
    records = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    records[place].update(changes)
    world.write_log("case-1", "V0", records)
    refused(world, metrics, tmp_path, message)


def test_a_truncated_log_is_refused(world: World, metrics: Metrics, tmp_path: Path) -> None:
    path = world.log_path("case-1", "V0")
    path.write_bytes(path.read_bytes()[:-20])
    refused(world, metrics, tmp_path, "gzip data is damaged or truncated")


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ({"history_k": 5}, "different history_k (3 in case-0 and 2 more, 5 in case-1)"),
        (
            {"compat": "source"},
            "different compat (gatemark in case-0 and 2 more, source in case-1)",
        ),
        ({"chunk_size_ctu": 90}, "different chunk_size_ctu (125 in case-0 and 2 more, 90 in case"),
    ],
)
def test_logs_that_were_made_under_other_settings_are_not_averaged_with_the_rest(
    world: World, metrics: Metrics, tmp_path: Path, meta: dict[str, Any], message: str
) -> None:
    usual = {"trigger_policy": "full_exaid", "compat": "gatemark", "chunk_size_ctu": 125}
    for at in range(4):
        world.add_log(f"case-{at}", "V0", ("Fever.",), **usual | (meta if at == 1 else {}))
    refused(world, metrics, tmp_path, f"V0: its logs were made with {message}")


@pytest.mark.parametrize(
    ("meta", "event", "message"),
    [
        ({"trigger_policy": "no_buffer"}, {}, "must be full_exaid under V0, got no_buffer"),
        ({}, {"summary_ctu": 1}, "must be 2, the size of summary_semantics_text, got 1"),
        (
            {},
            {"llm_usage": {"tokengate_config_hash": "sha256:0"}},
            "belongs to run_meta, in one place only at $.llm_usage.tokengate_config_hash",
        ),
    ],
)
def test_a_log_that_contradicts_itself_is_not_measured(  # noqa: PLR0917
    world: World,
    metrics: Metrics,
    tmp_path: Path,
    meta: dict[str, Any],
    event: dict[str, Any],
    message: str,
) -> None:
    records = [
        world.meta("case-1", "V0", **meta),
        world.decision("case-1", "V0", 0, 3),
        world.event("case-1", "V0", 0, "Fever.", (1, 3), **event),
    ]
    world.write_log("case-1", "V0", records)
    refused(world, metrics, tmp_path, message)


def test_what_a_reader_should_know_about_the_logs_is_told_with_the_verdict(
    world: World, metrics: Metrics
) -> None:
    (ungated,) = metrics(world, "--json").json["caveats"]
    assert ungated.startswith("no gate was set")
    assert metrics(world, "--gate", "m6b_mean=0.5", "--json").json["caveats"] == []
    world.add_log("case-1", "V0", ("Fever.",), eval_run_id="eval-00000000-00000001")
    for at in range(4):
        world.add_log(f"case-{at}", "V1", ("Fever.",), compat="source")
    records = [
        world.meta("case-0", "V0"),
        world.flush("case-0", "V0", 0, 8),
        world.decision("case-0", "V0", 0, 3),
        world.event("case-0", "V0", 0, "Fever.", (3, 1)),
    ]
    world.write_log("case-0", "V0", records)
    ran = metrics(world, "--max-k", "9", "--gate", "m6b_mean=0.9", "--json")
    assert ran.code == 0
    assert ran.json["caveats"] == [
        "the logs of V0 come from 2 runs that differ in eval_run_id",
        "1 summaries of V0 have a window that ends before it starts; it supports nothing",
        "the logs of V1 were made with compat source, not gatemark",
        "the logs of V0 name another concept extractor than the one that ran (max_k)",
        "the logs of V1 name another concept extractor than the one that ran (max_k)",
    ]


def test_a_list_of_names_that_does_not_fit_the_traces_cannot_hold_a_gate(
    world: World, metrics: Metrics
) -> None:
    (world.folder / "lexicon.jsonl").write_text('{"id":"T:9","name":"zebra"}\n', encoding="utf-8")
    ran = metrics(world, "--gate", "m6b_mean=0.5", "--json")
    assert ran.code == 3
    assert ran.json["score"]["value"] is None
    assert ran.json["blockers"] == [
        "V0.m6b_mean was not measured: no summary holds a concept that the extractor knows"
    ]
    shown = metrics(world)
    assert shown.code == 0
    assert "no trace holds a concept that the extractor knows: M4 and M7b" in " ".join(
        shown.out.split()
    )


def test_two_logs_of_one_case_are_refused(world: World, metrics: Metrics, tmp_path: Path) -> None:
    packed_log = world.log_path("case-1", "V0")
    plain = packed_log.with_name("case-1.jsonl")
    plain.write_bytes(gzip.decompress(packed_log.read_bytes()))
    refused(world, metrics, tmp_path, "is a second log of case-1 under V0")


def test_a_variant_without_a_configuration_is_refused(
    world: World, metrics: Metrics, tmp_path: Path
) -> None:
    (world.configs / "V1.yaml").unlink()
    refused(world, metrics, tmp_path, "variant 'V1' has no configuration")


def test_every_refused_log_is_listed_and_the_rest_counted(
    world: World, metrics: Metrics, tmp_path: Path
) -> None:
    for at in range(4):
        world.add_log(f"case-{at}", "V0", ("Fever.",), trace_file_hash=digest_bytes(b"x"))
    ran = metrics(world, "--max-errors", "2")
    assert ran.code == 2
    assert ran.err.count("trace_file_hash is") == 2
    assert "and 2 more" in ran.err


def test_logs_may_be_counted_out_and_then_hold_the_verdict_open(
    world: World, metrics: Metrics, tmp_path: Path
) -> None:
    for variant in ("V0", "V1"):
        world.add_log("case-1", variant, ("Fever.",), trace_file_hash=digest_bytes(b"x"))
    options = ("--on-bad-case", "exclude", "--out", tmp_path / "out")
    ran = metrics(world, *options, "--json")
    assert ran.code == 3
    assert ran.json["rejected"] == 2
    assert len(rows(tmp_path / "out")) == 6
    provenance = json.loads((tmp_path / "out" / "metrics.provenance.json").read_text())
    assert list(provenance["excluded_logs"]) == ["V0/case-1.jsonl.gz", "V1/case-1.jsonl.gz"]
    assert metrics(world, *options, "--coverage-gate", "0.75").code == 0


def test_a_missing_log_holds_the_verdict_open(world: World, metrics: Metrics) -> None:
    world.log_path("case-3", "V1").unlink()
    ran = metrics(world, "--json")
    assert ran.code == 3
    assert ran.json["missing"] == 1
    assert metrics(world, "--variant", "V0").code == 0


def with_suffix(world: World) -> None:
    """Write every log anew as the published ones are: with the file suffix in each name."""
    for at in range(4):
        for variant in ("V0", "V1"):
            old = world.log_path(f"case-{at}", variant)
            text = gzip.decompress(old.read_bytes()).decode()
            old.unlink()
            text = text.replace(f'"case-{at}', f'"case-{at}.trace')
            new = old.with_name(f"case-{at}.trace.jsonl.gz")
            new.write_bytes(gzip.compress(text.encode(), mtime=0))


def test_published_logs_with_a_suffix_in_their_ids_are_read_in_source_mode_only(
    world: World, metrics: Metrics, tmp_path: Path
) -> None:
    assert metrics(world, "--compat", "source", "--out", tmp_path / "plain").code == 0
    with_suffix(world)
    refused(world, metrics, tmp_path, "case-0.trace")
    assert metrics(world, "--compat", "source", "--out", tmp_path / "suffix").code == 0
    assert rows(tmp_path / "suffix") == rows(tmp_path / "plain")


def test_stub_traces_are_measured_and_counted(tmp_path: Path, metrics: Metrics) -> None:
    world = small_world(tmp_path / "world")
    path = world.traces / names.name_trace_file("case-0")
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    records = [json.loads(line) for line in lines]
    records[0]["stub_mode"] = True
    path.write_bytes(packed(records))
    world.entries[0]["sha256"] = digest_bytes(gzip.decompress(path.read_bytes()))
    world.file_hashes["case-0"] = digest_bytes(path.read_bytes())
    world.write_manifest()
    for at in range(4):
        world.add_log(f"case-{at}", "V0", ("Fever.",))
    ran = metrics(world, "--variant", "V0", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["variants"]["V0"]["stub_trace_count"] == 1


def test_a_report_shows_variants_curves_and_one_timeline(
    world: World, metrics: Metrics, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    ran = metrics(world, "-o", page, "--timeline", "case-2")
    assert ran.code == 0
    assert "M6b unsupported by window or latest" in ran.out
    text = page.read_text(encoding="utf-8")
    for words in (
        "Variants side by side",
        "lower is better",
        "Coverage of the trace within a budget",
        "Flushes of the token gate by reason",
        "Model latency by what it was for (lower is better)",
        "case-2 under V0",
    ):
        assert words in text
    assert text.count("data:image/svg+xml") >= 8


def test_rows_that_were_computed_before_can_sit_the_exam_again(
    world: World, metrics: Metrics, tmp_path: Path
) -> None:
    ran = metrics(world, "--out", tmp_path / "out", "--json")
    path = str(tmp_path / "out" / "per_case.metrics.jsonl")
    options = {"bootstrap_samples": 200}
    again = examine_metrics_files([path], options, ReadingChoices())
    assert json.loads(json.dumps(again.report.facts["aggregate"])) == ran.json["variants"]
    assert again.report.score is not None
    assert again.report.score.value == ran.json["score"]["value"]
    pinned = frozenset(f"case-{at}" for at in range(5))
    partial = examine_metrics_files([path], options, ReadingChoices(), expected_ids=pinned)
    assert (partial.evidence.missing, partial.evidence.expected) == (2, 10)


def test_errors_lay_open_the_cases_that_stand_out(
    world: World, metrics: Metrics, gatemark: Callable[..., Any], tmp_path: Path
) -> None:
    world.add_log("case-3", "V0", ("Fever.",))
    assert metrics(world, "--out", tmp_path / "out").code == 0
    ran = gatemark(
        "runlog",
        "errors",
        "--metrics",
        tmp_path / "out" / "per_case.metrics.jsonl",
        "--runs",
        world.runs,
        "--traces",
        world.traces,
        "--out",
        tmp_path / "errors",
        "--max-excerpt-chars",
        "8",
        "--concepts",
        "--lexicon",
        world.folder / "lexicon.jsonl",
        "--json",
    )
    assert ran.code == 0, ran.err
    flagged = [row for row in rows(tmp_path / "out") if row["outlier_flags"]]
    text = (tmp_path / "errors" / "error_analysis.jsonl").read_text(encoding="utf-8")
    found = [json.loads(line) for line in text.splitlines()]
    assert [entry["case_id"] for entry in found] == [row["case_id"] for row in flagged]
    (lone,) = (e for e in found if (e["case_id"], e["variant_id"]) == ("case-3", "V0"))
    assert lone["outlier_flags"] == ["low_coverage"]
    assert lone["trace_excerpts"][0]["text"] == "I see f…"
    assert lone["concepts"]["missed"] == ["T:2", "T:3"]
    assert [gate["kind"] for gate in lone["gate_decisions"]] == [
        "tokengate_flush",
        "buffer_decision",
    ]
    assert lone["summary_outputs"][0]["text"] == "Fever."


@pytest.mark.parametrize(
    ("texts", "meta", "message"),
    [
        (("Fever.",), {"trace_file_hash": digest_bytes(b"x")}, "was made from another trace"),
        (("Fever.", "Cough."), {}, "is not the log that was measured (it has 2 summaries"),
    ],
)
def test_errors_refuse_logs_of_other_traces_and_other_runs(
    world: World,
    metrics: Metrics,
    gatemark: Callable[..., Any],
    tmp_path: Path,
    *,
    texts: tuple[str, ...],
    meta: dict[str, str],
    message: str,
) -> None:
    world.add_log("case-3", "V0", ("Fever.",))
    assert metrics(world, "--out", tmp_path / "out").code == 0
    world.add_log("case-3", "V0", texts, **meta)
    ran = gatemark(
        "runlog",
        "errors",
        "--metrics",
        tmp_path / "out" / "per_case.metrics.jsonl",
        "--runs",
        world.runs,
        "--traces",
        world.traces,
        "--out",
        tmp_path / "errors",
    )
    assert ran.code == 2
    assert message in ran.err


def test_stoplists_stop_what_nearly_every_trace_says(
    world: World, metrics: Metrics, gatemark: Callable[..., Any], tmp_path: Path
) -> None:
    def made(name: str, *more: object) -> Any:
        return gatemark(
            "runlog",
            "stoplists",
            "--traces",
            world.traces,
            "--lexicon",
            world.folder / "lexicon.jsonl",
            "--out",
            tmp_path / name,
            *more,
        )

    ran = made("stops", "--json", "-j", "1")
    assert ran.code == 0, ran.err
    assert ran.json["stopped"] == {"cuis": ["T:1", "T:2"], "entities": ["cough", "fever"]}
    assert ran.json["cutoff"] == 4
    assert made("half", "--threshold", "0.5", "-j", "2").code == 0
    text = (tmp_path / "half" / "stop_cuis.txt").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        "T:1",
        "T:2",
        "T:3",
    ]
    stopped = metrics(world, "--stoplists", tmp_path / "stops", "--out", tmp_path / "out")
    assert stopped.code == 0
    assert rows(tmp_path / "out")[0]["m4_trace_cui_count"] == 0


def test_traces_that_do_not_keep_their_rules_give_no_stoplists(
    world: World, gatemark: Callable[..., Any], tmp_path: Path
) -> None:
    path = world.traces / names.name_trace_file("case-0")
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join(lines[:-1]), mtime=0))
    ran = gatemark("runlog", "stoplists", "--traces", world.traces, "--out", tmp_path / "stops")
    assert ran.code == 2
    assert "turn 2 has no end" in ran.err
    assert not (tmp_path / "stops").exists()


def test_sealed_metrics_can_be_shown_again(
    world: World, metrics: Metrics, gatemark: Callable[..., Any], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    ran = metrics(world, "--seal", "--store", store, "--json")
    assert ran.code == 0, ran.err
    shown = gatemark("show", ran.json["result_id"], "--store", store)
    assert shown.code == 0
    assert "run-log metrics of V0" in shown.out


def test_a_few_cases_are_not_worth_a_second_process_unless_a_user_says_so() -> None:
    assert Workspace().engine_for(3, few=20).jobs == 1
    assert Workspace(jobs=2).engine_for(3, few=20).jobs == 2
    assert Workspace(jobs=2).engine_for(20, few=20).jobs == 2


def test_a_log_of_before_1_5_is_refused_because_nothing_ties_it_to_its_trace(
    world: World, metrics: Metrics, tmp_path: Path
) -> None:
    meta = world.meta("case-1", "V0", schema_version="1.3.0")
    for name in ("trace_file_hash", "trace_dataset_hash", "tokengate_config_hash"):
        del meta[name]
    world.write_log("case-1", "V0", [meta, world.event("case-1", "V0", 0, "Fever.", (1, 3))])
    refused(
        world,
        metrics,
        tmp_path,
        "trace_dataset_hash is missing, so nothing ties it to the manifest",
        "trace_file_hash is missing, so nothing ties it to the trace file",
    )


PACK = """
gatemark: 1
name: summaries
version: 1
asset: {kind: agent, name: summariser}
score_min: 0.5
regression_max: 0.02
suites:
  - id: logs
    kind: runlog
    weight: 1
    evidence: {metrics: out/per_case.metrics.jsonl}
    baseline_evidence: none
    options: {variant: V0, score: m4_trace_coverage, gates: {m6b_mean: BOUND}}
"""


def test_a_pack_weighs_and_judges_rows_of_metrics_and_misses_one_that_was_taken_out(
    world: World, metrics: Metrics, gatemark: Callable[..., Any], tmp_path: Path
) -> None:
    assert metrics(world, "--out", tmp_path / "out").code == 0
    pack, store = tmp_path / "pack.yaml", tmp_path / "store"
    run = ("run", pack, "--store", store, "--json")
    pack.write_text(PACK.replace("BOUND", "0.17"), encoding="utf-8")
    passed = gatemark(*run)
    assert passed.code == 0, passed.err
    # Two of two concepts are covered in half of the cases, and two of three in the others.
    assert passed.json["bench"]["value"] == pytest.approx((1 + 2 / 3) / 2)
    assert gatemark("ledger", "verify", "--rescore", "--store", store).code == 0
    stricter = PACK.replace("BOUND", "0.16").replace("version: 1", "version: 2")
    pack.write_text(stricter, encoding="utf-8")
    failed = gatemark(*run)
    assert failed.code == 1
    assert failed.json["blockers"] == ["logs/V0.m6b_mean must be <= 0.16, got 0.166667 (n=4)"]
    pack.write_text(PACK.replace("BOUND", "0.17"), encoding="utf-8")
    path = tmp_path / "out" / "per_case.metrics.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    lost = gatemark(*run)
    assert lost.code == 3
    assert lost.json["blockers"] == ["logs.evidence.coverage must be >= 1, got 0.875 (n=8)"]


def test_rows_that_come_twice_or_unasked_cannot_sit_the_exam(
    world: World, metrics: Metrics, tmp_path: Path
) -> None:
    assert metrics(world, "--out", tmp_path / "out").code == 0
    path = tmp_path / "out" / "per_case.metrics.jsonl"
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(path.read_bytes())
    with pytest.raises(BadInputError, match=r"V0: case .case-0. was seen before in .*per_case"):
        examine_metrics_files([str(path), str(copy)], {}, ReadingChoices())
    with pytest.raises(BadInputError, match="'case-3' is not among the expected ids"):
        examine_metrics_files(
            [str(path)],
            {},
            ReadingChoices(),
            expected_ids=frozenset({"case-0", "case-1", "case-2"}),
        )
    copy.write_bytes(path.read_bytes() + path.read_bytes())
    with pytest.raises(BadInputError, match="was seen before on line 1"):
        examine_metrics_files([str(copy)], {}, ReadingChoices())
    edited = path.read_text(encoding="utf-8").replace(
        '"m10_compliance_rate":1.0', '"m10_compliance_rate":0.5'
    )
    copy.write_text(edited, encoding="utf-8")
    with pytest.raises(BadInputError, match=r"m10_compliance_rate \(numbers_agree\)"):
        examine_metrics_files([str(copy)], {}, ReadingChoices())
    aggregate = tmp_path / "out" / "aggregate.metrics.json"
    copy.write_bytes(json.dumps(json.loads(aggregate.read_bytes())).encode())
    with pytest.raises(BadInputError, match="holds no per_case records"):
        examine_metrics_files([str(copy)], {}, ReadingChoices())


def test_phenotypes_are_measured_under_their_umls_ids(
    world: World, gatemark: Callable[..., Any], tmp_path: Path
) -> None:
    ran = gatemark(
        *("runlog", "metrics", "--runs", world.runs, "--traces", world.traces),
        *("--configs", world.configs, "--out", tmp_path / "out", "--extractor", "hpo"),
        *("--bootstrap-samples", "50", "-j", "1", "--json"),
    )
    assert ran.code == 0, ran.err
    provenance = json.loads((tmp_path / "out" / "metrics.provenance.json").read_text())
    assert provenance["extractor"]["name"] == "hpo"
    assert provenance["extractor"]["knowledge_base_version"] == "hp/releases/2025-01-16"
    assert provenance["extractor"]["run_meta"]["linker_name"] == "hpo_umls_xref"
    assert "linker_name" in provenance["extractor_differs_from_run_meta"]["V0"]
    first = rows(tmp_path / "out")[0]
    # Fever and cough bring names along that look like theirs; sepsis is only in the summary.
    assert first["m4_trace_coverage"] == 1.0
    assert 0 < first["m5_unsupported_global_rate"] < 1


@pytest.mark.parametrize("verb", ["metrics", "stoplists", "errors"])
def test_the_summary_of_a_command_is_the_first_line_of_its_help(
    gatemark: Callable[..., Any], verb: str
) -> None:
    ran = gatemark("runlog", verb, "--help")
    assert ran.code == 0
    assert RUNLOG_VERBS[verb][1] in ran.out
    assert "Examples:" in ran.out
    assert f"  {verb} " in gatemark("runlog", "--help").out


def test_gates_compare_intervals_and_variants(world: World, metrics: Metrics) -> None:
    ran = metrics(world, "--gate", "m6b_mean=0.9", "--gates-on", "interval", "--json")
    assert ran.code == 3
    assert ran.json["blockers"] == ["V0.m6b_mean rests on 4 items, needs 10"]
    paired = ("--judged", "V1", "--reference", "V0", "--paired-gate", "m6b_mean=0.1", "--json")
    ran = metrics(world, *paired)
    assert ran.code == 3
    assert ran.json["blockers"] == ["V1.worse_by.m6b_mean rests on 4 items, needs 10"]
    alone = metrics(world, "--paired-gate", "m6b_mean=0.1")
    assert alone.code == 2
    assert "reference must be another variant" in alone.err
    twice = metrics(world, "--paired-gate", "m6b_mean=0.1", "--paired-gate", "m6b_mean=0.2")
    assert "--paired-gate names m6b_mean more than once" in twice.err
