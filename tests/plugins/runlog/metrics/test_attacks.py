"""Logs and rows that were changed by hand: none is measured, none passes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.runlog.worlds import World, packed, small_world

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.plugins.runlog.examine import examine_metrics_files

Run = Callable[..., Any]
Records = list[dict[str, Any]]
Change = Callable[[Records], object]
# The records of each log of V0: one meta, two flushes, two decisions, two summaries.
META, FLUSH, DECISION, LAST = 0, 1, 3, 6


@pytest.fixture
def world(tmp_path: Path) -> World:
    return small_world(tmp_path / "world")


def measured(gatemark: Run, world: World, *more: object) -> Any:
    return gatemark(
        *("runlog", "metrics", "--runs", world.runs, "--traces", world.traces),
        *("--configs", world.configs, "--lexicon", world.folder / "lexicon.jsonl"),
        *("--out", world.folder / "metrics", "--bootstrap-samples", "50", "-j", "1", *more),
    )


def records_of(path: Path) -> Records:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def again(at: int, *, renumbered: bool = False) -> Change:
    """Repeat a record at the end, as it is or as the next one of its kind."""

    def change(records: Records) -> None:
        one = dict(records[at])
        if renumbered:
            one |= {"event_index": 2, "event_id": one["event_id"].replace("-001", "-002")}
        records.append(one)

    return change


def setting(at: int, **fields: Any) -> Change:
    return lambda records: records[at].update(fields)


def only_meta(records: Records) -> None:
    del records[1:]


ATTACKS: dict[str, tuple[Change, str]] = {
    "a summary twice": (again(LAST), "indices count from 0 without gaps, got 1"),
    "a summary twice, renumbered": (
        again(LAST, renumbered=True),
        "2 decisions to summarize, but 3 summaries",
    ),
    "a decision twice": (again(DECISION), "must not come after summary_event"),
    "a flush twice": (again(FLUSH), "must not come after summary_event"),
    "meta twice": (again(META), "a file has one run_meta, the first is on line 1"),
    "meta alone": (only_meta, "6 pieces of text, from seq 1 to 8, are in no summary"),
    "no record": (lambda records: records.clear(), "contains no records"),
    "no meta": (lambda records: records.pop(META), "run_meta must come first"),
    "a version nobody knows": (setting(META, schema_version="9.0.0"), "unknown version '9.0.0'"),
    "a version that is none": (setting(META, schema_version="new"), "$.schema_version"),
    "a variant that is none": (setting(META, variant_id="V-9"), "$.variant_id"),
    "another variant in meta": (setting(META, variant_id="V1"), "must be run_meta's 'V1'"),
    "another variant in a summary": (setting(LAST, variant_id="V1"), "expected 'case-1-V1-se-001'"),
    "another case in a summary": (setting(LAST, case_id="case-9"), "expected 'case-9-V0-se-001'"),
    "a latency below 0": (setting(LAST, latency_ms=-1), "at $.latency_ms"),
    "a latency that is endless": (setting(LAST, latency_ms="inf"), "at $.latency_ms"),
    "usage below 0": (setting(LAST, llm_usage={"prompt_ctu": -1}), "at $.llm_usage.prompt_ctu"),
    "huge usage": (setting(LAST, llm_usage={"prompt_ctu": 10**30}), "at $.llm_usage.prompt_ctu"),
    "a seq below 0": (setting(LAST, start_seq=-1), "at $.start_seq"),
    "a huge seq": (setting(LAST, end_seq=10**18), "at $.end_seq"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_log_that_was_changed_by_hand_is_refused(
    name: str, world: World, gatemark: Run, tmp_path: Path
) -> None:
    change, message = ATTACKS[name]
    path = world.log_path("case-1", "V0")
    records = records_of(path)
    change(records)
    path.write_bytes(packed(records))
    ran = measured(gatemark, world, "--gate", "m6b_mean=0.9")
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert not (world.folder / "metrics").exists()
    held = measured(gatemark, world, "--gate", "m6b_mean=0.9", "--on-bad-case", "exclude")
    assert held.code == 3, held.err


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "null", '"5"', "true"])
def test_a_latency_that_is_not_a_number_is_refused(
    number: str, world: World, gatemark: Run
) -> None:
    path = world.log_path("case-1", "V0")
    text = gzip.decompress(path.read_bytes()).decode()
    assert text.count('"latency_ms":200') == 1
    text = text.replace('"latency_ms":200', f'"latency_ms":{number}')
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    ran = measured(gatemark, world, "--gate", "m6b_mean=0.9")
    assert (ran.code, ran.out) == (2, "")
    assert "case-1.jsonl.gz:7" in ran.err
    checked = gatemark("runlog", "validate", path)
    assert checked.code != 0


def test_a_log_of_another_variant_under_this_ones_name_is_refused(
    world: World, gatemark: Run
) -> None:
    """Attack: the log of the variant that does better stands in for the judged one."""
    text = gzip.decompress(world.log_path("case-1", "V1").read_bytes()).decode()
    text = text.replace('"V1"', '"V0"').replace("-V1-", "-V0-")
    world.log_path("case-1", "V0").write_bytes(gzip.compress(text.encode(), mtime=0))
    ran = measured(gatemark, world, "--gate", "m6b_mean=0.9")
    assert (ran.code, ran.out) == (2, "")
    assert "must be buffer_agent under V0, got turn_end" in ran.err


@pytest.fixture
def rows(world: World, gatemark: Run) -> Records:
    assert measured(gatemark, world).code == 0
    text = (world.folder / "metrics" / "per_case.metrics.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def written(folder: Path, name: str, rows: Iterable[dict[str, Any]]) -> str:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def examine(*paths: str) -> Any:
    return examine_metrics_files(list(paths), {"bootstrap_samples": 50}, ReadingChoices())


def test_rows_that_are_given_twice_are_refused(rows: Records, tmp_path: Path) -> None:
    """Attack: the good cases count twice."""
    whole = written(tmp_path, "a.jsonl", rows)
    assert examine(whole).evidence.received == len(rows) == 8
    with pytest.raises(BadInputError, match="case-0 under V0 was seen before on line 1"):
        examine(written(tmp_path, "b.jsonl", [*rows, rows[0]]))
    with pytest.raises(BadInputError, match=r"V0: case .case-0. was seen before in .*a\.jsonl"):
        examine(whole, written(tmp_path, "c.jsonl", rows[:1]))
    with pytest.raises(BadInputError, match=r"V0: case .case-0. was seen before in .*a\.jsonl"):
        examine(whole, whole)
    (tmp_path / "d.jsonl").symlink_to(tmp_path / "a.jsonl")
    with pytest.raises(BadInputError, match=r"V0: case .case-0. was seen before in"):
        examine(whole, str(tmp_path / "d.jsonl"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"m3_redundancy_jaccard_mean": 0.01}, "must be the mean of the listed values, got 0.01"),
        ({"m8_summary_latency_ms_mean": 1.0}, "must be the mean of the listed values, got 1.0"),
        ({"m8_buffer_decision_latency_ms_mean": 1.0}, "must be the mean of the listed values"),
        ({"m8_summary_latency_ms_mean": None}, "must be the mean of the listed values, got None"),
        ({"m3_jaccards": []}, "must hold 1 values for 2 updates, got 0"),
        ({"m8_summary_latencies_ms": [100.0]}, "must be the mean of the listed values, got 150.0"),
        ({"m3_jaccards": None}, "$.m3_jaccards"),
        ({"m8_summary_latencies_ms": None}, "$.m8_summary_latencies_ms"),
        ({"m8_summary_latencies_ms": [100.0, None]}, "$.m8_summary_latencies_ms"),
        ({"m3_jaccards": [1.5]}, "$.m3_jaccards"),
        ({"m6b_mean": float("nan")}, "not JSON"),
        ({"m6b_mean": -0.1}, "$.m6b_mean"),
    ],
)
def test_a_row_whose_numbers_do_not_fit_its_lists_is_refused(
    changes: dict[str, Any], message: str, rows: Records, tmp_path: Path
) -> None:
    path = written(tmp_path, "a.jsonl", [{**rows[0], **changes}, *rows[1:]])
    with pytest.raises(BadInputError) as caught:
        examine(path)
    assert message in str(caught.value)


def test_the_digest_of_a_changed_trace_does_not_help(world: World, gatemark: Run) -> None:
    """Attack: the trace loses what the summaries got wrong, and the log has its new hash."""
    path = world.traces / "case-1.trace.jsonl.gz"
    records = [one for one in records_of(path) if "chest" not in one.get("delta_text", "")]
    path.write_bytes(packed(records))
    text = gzip.decompress(world.log_path("case-1", "V0").read_bytes()).decode()
    text = text.replace(world.file_hashes["case-1"], digest_bytes(path.read_bytes()))
    world.log_path("case-1", "V0").write_bytes(gzip.compress(text.encode(), mtime=0))
    ran = measured(gatemark, world, "--variant", "V0")
    assert (ran.code, ran.out) == (2, "")
    assert "is not the hash of the text of turn 2" in ran.err


def changed_logs(world: World, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the last summary of every log of V0, the one with the unsupported concept."""
    for at in range(4):
        path = world.log_path(f"case-{at}", "V0")
        records = records_of(path)
        change(records[LAST])
        path.write_bytes(packed(records))


def test_summaries_that_fail_their_schema_do_not_leave_a_gate_on_what_they_say(
    world: World, gatemark: Run
) -> None:
    """Attack: whatever is unsupported is marked as failed, so that M6 leaves it out."""
    gate = ("--gate", "m6b_mean=0.15", "--json")
    assert measured(gatemark, world, *gate).code == 1
    changed_logs(world, lambda one: one.update(schema_ok=False))
    ran = measured(gatemark, world, *gate)
    assert ran.code == 3
    assert ran.json["variants"]["V0"]["m6b"]["mean"] == 0
    (blocker,) = ran.json["blockers"]
    assert "V0.excluded_summary_count must be <= 0, got 4" in blocker
    assert any("M5 and M6 leave out 4 of 8 summaries" in one for one in ran.json["caveats"])
    assert measured(gatemark, world, *gate, "--gate", "m10_schema_failure_rate=0.5").code == 0
    assert measured(gatemark, world, *gate, "--gate", "m10_schema_failure_rate=0.4").code == 1
    assert measured(gatemark, world, "--gate", "m4_trace_coverage=0.1").code == 0


def test_latencies_that_are_left_out_do_not_leave_a_gate_on_latency(
    world: World, gatemark: Run
) -> None:
    """Attack: slow summaries have no latency."""
    gate = ("--gate", "m8_summary_latency_ms_mean=120", "--json")
    assert measured(gatemark, world, *gate).code == 1
    changed_logs(world, lambda one: one.pop("latency_ms"))
    ran = measured(gatemark, world, *gate)
    assert ran.code == 3
    (blocker,) = ran.json["blockers"]
    assert "V0.summary_without_latency_count must be <= 0, got 4" in blocker
    assert "M8 leaves out 4 of 8 summaries, which have no latency" in ran.json["caveats"]
    assert measured(gatemark, world, "--gate", "m6b_mean=0.2").code == 0


def test_a_gate_that_leaves_summaries_out_counts_them(rows: Records, tmp_path: Path) -> None:
    options = {"bootstrap_samples": 50, "gates": {"m6b_mean": 0.15}}
    path = written(tmp_path, "a.jsonl", rows)
    found = examine_metrics_files([path], options, ReadingChoices())
    assert "excluded_summary_count" in [rule.metric for rule in found.exam.policy().rules]
    assert "excluded_summary_count" in [one.name for one in found.report.measurements]
