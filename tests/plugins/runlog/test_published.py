"""The published logs of 21 cases: read as they are, and measured to the published numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import pytest

from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.source import inspect_source
from gatemark.plugins.runlog.estimates import Draws, estimate_variant
from gatemark.plugins.runlog.examine import read_rows
from gatemark.plugins.runlog.metrics.case import compute_case_metrics
from gatemark.plugins.runlog.metrics.errors import flag_outliers
from gatemark.plugins.runlog.records.metrics import PerCaseMetrics
from gatemark.plugins.runlog.records.names import strip_case_id
from gatemark.plugins.runlog.replay.chunks import read_chunk_report
from gatemark.plugins.runlog.replay.config import load_variants
from gatemark.plugins.runlog.replay.token_gate import TokenGate
from gatemark.plugins.runlog.traces.files import read_run_log, read_trace
from gatemark.plugins.runlog.traces.trace import TraceText
from gatemark.plugins.runlog.variant_document import describe_variant

EXAIM = Path(__file__).parents[3].parent / "shared" / "reality" / "exaim"
pytestmark = pytest.mark.skipif(
    not EXAIM.is_dir(), reason="no folder ../shared/reality/exaim beside the repository"
)
Run = Callable[..., Any]
SAME = (
    *("m1_update_count", "m2_output_ctu"),
    *("m8_summary_latency_ms_mean", "m8_buffer_decision_latency_ms_mean"),
    *("m8_summary_latency_distribution_ms", "m8_buffer_decision_latency_distribution_ms"),
    *("m9_prompt_ctu_total", "m9_completion_ctu_total", "m9_total_llm_ctu"),
    *("m9_buffer_decision_count", "m10_schema_failure_count", "m10_schema_failure_rate"),
    *("m10_compliance_rate", "faithfulness_valid_event_count", "excluded_from_faithfulness_count"),
    *("flush_count", "flush_reason_counts", "flush_accumulated_ctu_distribution"),
    *("flush_interval_ms_distribution", "virtual_time_duration_ms"),
    *("control_plane_latency_ms", "content_plane_latency_ms", "summary_ctu_per_s"),
)
"""Everything in a row that no concept extractor is needed for, but the text of the trace."""


def published() -> dict[tuple[str, str], PerCaseMetrics]:
    source = inspect_source(str(EXAIM / "per_case.metrics.jsonl"))
    rows = read_rows(source, ReadingChoices())
    return {(row.variant_id, strip_case_id(row.case_id)): row for row in rows}


@pytest.fixture(scope="module")
def measured() -> dict[tuple[str, str], PerCaseMetrics]:
    rows = []
    for path in sorted((EXAIM / "traces").glob("*.gz")):
        read = read_trace(str(path), mode="inspect")
        traced = TraceText(read.trace, "source")
        for variant in ("V0", "V1", "V2", "V3", "V4"):
            log = read_run_log(str(EXAIM / "runs" / variant / path.name), compat="source")
            matches = {"tokengate_config_hash_match": True, "dataset_manifest_hash_valid": True}
            rows.append(compute_case_metrics(log, traced, lambda _: frozenset(), **matches))
    return {(row.variant_id, row.case_id): row for row in flag_outliers(rows)}


def test_every_published_file_is_read_as_it_is(gatemark: Run) -> None:
    ran = gatemark("runlog", "validate", EXAIM / "runs", "--compat", "source", "--json")
    assert (ran.code, ran.json["file_count"]) == (0, 105)
    plain = gatemark("runlog", "validate", EXAIM / "runs", "--json").json
    assert [len(file["problems"]) for file in plain["files"]] == [1] * 105
    traces = gatemark("runlog", "validate", EXAIM / "traces", "--mode", "inspect", "--json")
    assert (traces.code, traces.json["file_count"]) == (0, 21)
    documents = ("per_case.metrics.jsonl", "aggregate.metrics.json")
    assert gatemark("validate", *(EXAIM / name for name in documents)).code == 0


def test_every_published_log_fits_its_trace(gatemark: Run) -> None:
    (manifest,) = EXAIM.glob("*.manifest.jsonl")
    audit = ("--compat", "source", "--mode", "inspect", "--traces", EXAIM / "traces")
    ran = gatemark("runlog", "validate", EXAIM / "runs", *audit, "--manifest", manifest)
    assert ran.code == 0, ran.out


def test_the_published_numbers_are_ours(
    measured: dict[tuple[str, str], PerCaseMetrics],
) -> None:
    expected = published()
    assert measured.keys() == expected.keys()
    assert len(measured) == 105
    for key, row in measured.items():
        ours, theirs = (msgspec.to_builtins(one) for one in (row, expected[key]))
        for name in SAME:
            assert ours[name] == pytest.approx(theirs[name]), (key, name)


def test_published_rows_pool_to_the_same_means_as_the_logs(
    measured: dict[tuple[str, str], PerCaseMetrics],
) -> None:
    draws = Draws(42, 50)
    for variant in ("V0", "V1", "V2", "V3", "V4"):
        pair = []
        for rows in (published(), measured):
            mine = [rows[key] for key in sorted(rows) if key[0] == variant]
            pair.append(estimate_variant(mine, draws))
        theirs, ours = pair
        for name in ("m8_summary_latency_ms_mean", "m8_buffer_decision_latency_ms_mean"):
            if ours[name].found is None:
                assert theirs[name].found is None
                continue
            assert theirs[name].found == pytest.approx(ours[name].found)
        assert theirs["m3_redundancy_jaccard_mean"].found is not None


def test_the_published_chunk_size_is_that_of_its_report_and_of_the_logs() -> None:
    report = read_chunk_report(str(EXAIM / "v3_calibration_report.json"))
    assert (report.chunk_size_ctu, report.overall_median_ctu) == (126, 125.5)
    assert len(report.per_case_median_ctu) == 40
    (v0,) = load_variants(str(EXAIM / "variants"), ("V0",))
    assert v0.tokengate_config_hash == report.tokengate_config_hash
    published = {strip_case_id(case): value for case, value in report.per_case_median_ctu.items()}
    for path in sorted((EXAIM / "runs" / "V0").glob("*.gz")):
        log = read_run_log(str(path), compat="source")
        sizes = {
            (flush.start_seq, flush.end_seq, flush.text_hash): flush.accumulated_ctu
            for flush in log.flushes
            if flush.trigger_reason not in ("end_of_trace", "turn_end")
        }
        assert median(sizes.values()) == published[log.meta.case_id]


def test_the_published_flushes_are_those_of_our_gate() -> None:
    (v0,) = load_variants(str(EXAIM / "variants"), ("V0",))
    for path in sorted((EXAIM / "traces").glob("*.gz"))[:3]:
        trace = read_trace(str(path), mode="inspect").trace
        gate = TokenGate(v0.config.components.token_gate.settings(), "source")
        flushed = [*gate.add_all(trace.list_content()), *gate.flush_all("end_of_trace")]
        log = read_run_log(str(EXAIM / "runs" / "V0" / path.name), compat="source")
        found = [(one.start_seq, one.end_seq, one.reason) for one in flushed]
        assert found == [(one.start_seq, one.end_seq, one.trigger_reason) for one in log.flushes]


def test_migrated_logs_need_no_compatibility_mode(gatemark: Run, tmp_path: Path) -> None:
    ran = gatemark("runlog", "migrate", EXAIM / "runs" / "V0", "--out", tmp_path / "V0", "--json")
    assert (ran.code, ran.json["refused"]) == (0, 0)
    assert gatemark("runlog", "validate", tmp_path).code == 0


def test_rows_have_the_published_shape() -> None:
    aggregate = json.loads((EXAIM / "aggregate.metrics.json").read_text())
    rows = [row for key, row in sorted(published().items()) if key[0] == "V0"]
    ours = describe_variant(rows, estimate_variant(rows, Draws(42, 10)))
    assert set(aggregate["variants"]["V0"]) <= set(ours)
