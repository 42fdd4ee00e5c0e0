from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.samples.importers import peer_shapes as shapes

from gatemark.samples.importer import importers

Run = Callable[..., Any]


def written(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def lm_eval_files(folder: Path, **results: Any) -> tuple[Path, Path]:
    rows = shapes.lm_eval_lines(shapes.lm_eval_rows()).data
    return (
        written(folder / "results.json", shapes.lm_eval_results() | results),
        written(folder / "samples_tiny_gen.jsonl", rows),
    )


def test_samples_are_written_in_the_order_of_ids_and_validate(
    gatemark: Run, tmp_path: Path
) -> None:
    log = shapes.inspect_log(epochs=2)
    log["samples"].reverse()
    out = tmp_path / "out" / "samples.jsonl"
    ran = gatemark("import", written(tmp_path / "log.json", log), "-o", out, "--json")
    assert ran.code == 0
    assert (ran.json["received"], ran.json["accepted"], ran.json["refused"]) == (40, 40, 0)
    assert ran.json["output"] == str(out)
    keys = [(record["id"], record["epoch"]) for record in records(out)]
    assert keys == sorted(keys)
    assert len(keys) == 40
    assert gatemark("validate", out).code == 0


def test_the_same_log_gives_the_same_bytes(gatemark: Run, tmp_path: Path) -> None:
    log = shapes.promptfoo_log()
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    gatemark("import", written(tmp_path / "x.json", log), "--arm", "baseline", "-o", first)
    log["results"]["results"].reverse()
    gatemark("import", written(tmp_path / "y.json", log), "--arm", "baseline", "-o", second)
    assert first.read_bytes() == second.read_bytes()


def test_errored_rows_are_kept_and_counted(gatemark: Run, tmp_path: Path) -> None:
    log = written(tmp_path / "p.json", shapes.pydantic_report())
    out = tmp_path / "s.jsonl"
    ran = gatemark("import", log, "-o", out)
    assert ran.code == 0
    assert "20 received, 20 accepted (1 errored), 0 refused" in ran.out
    assert "0.789474 over 19" in ran.out
    assert f"written: {out}" in ran.out
    (broken,) = [record for record in records(out) if record["error"]]
    assert (broken["id"], broken["scores"]) == ("add-013", {})


def test_without_an_output_only_counts_are_given(gatemark: Run, tmp_path: Path) -> None:
    log = written(tmp_path / "d.json", shapes.deepeval_log())
    ran = gatemark("import", log, "--json")
    (found,) = ran.json["logs"]
    assert (ran.code, ran.json["output"]) == (0, None)
    assert (found["tool"], found["accepted"], found["scores"]) == (
        "deepeval",
        20,
        ["Exact", "success"],
    )
    assert [path.name for path in tmp_path.iterdir()] == ["d.json"]


def test_aggregates_of_the_tool_are_checked_against_the_rows(gatemark: Run, tmp_path: Path) -> None:
    log = shapes.inspect_log()
    log["results"]["scores"][0]["metrics"]["accuracy"]["value"] = 0.95
    ran = gatemark("import", written(tmp_path / "log.json", log))
    assert ran.code == 0
    assert "DIFFERS: " in ran.out
    assert "the log says 0.95, its rows give 0.8 (n=20)" in ran.out


def test_files_of_one_log_are_read_together(gatemark: Run, tmp_path: Path) -> None:
    ran = gatemark("import", *lm_eval_files(tmp_path), "--json")
    (found,) = ran.json["logs"]
    assert len(found["files"]) == 2
    assert found["lineage"]["task_hash"] == "ab" * 32
    assert all(check["agrees"] for check in found["checks"])


def test_a_limited_run_is_written_and_marked(gatemark: Run, tmp_path: Path) -> None:
    counts = {"n-samples": {"tiny_gen": {"original": 200, "effective": 20}}}
    out = tmp_path / "s.jsonl"
    ran = gatemark("import", *lm_eval_files(tmp_path, **counts), "-o", out)
    assert ran.code == 0
    assert "ran 20 of 200 documents (--limit); an incomplete run cannot pass" in ran.out
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert all("of 200 documents" in row["origin"]["partial"][0] for row in rows)


def test_arms_are_listed(gatemark: Run, tmp_path: Path) -> None:
    log = written(tmp_path / "p.json", shapes.promptfoo_log())
    listed = gatemark("import", log, "--list-arms").out.split("\n")
    assert [line.split() for line in listed if line] == [
        ["1", "20", "rows", "baseline"],
        ["2", "20", "rows", "candidate"],
    ]
    listed = gatemark("import", log, "--list-arms", "--json").json
    assert listed[0] == {"name": "baseline", "row_count": 20}
    ran = gatemark("import", log)
    assert ran.code == 2
    assert "choose one with --arm, by name or number: 1: 'baseline', 2: 'candidate'" in ran.err


def test_an_id_can_be_named_by_its_path(gatemark: Run, tmp_path: Path) -> None:
    out = tmp_path / "s.jsonl"
    files = lm_eval_files(tmp_path)
    assert gatemark("import", *files, "--id", "doc.question", "-o", out).code == 0
    assert "7+7" in {record["id"] for record in records(out)}
    missing = gatemark("import", *files, "--id", "doc.nothing", "-o", out)
    assert missing.code == 2
    assert "no lm-eval 0.4.13 sample could be read" in missing.err


def test_refused_rows_keep_everything_from_being_written(gatemark: Run, tmp_path: Path) -> None:
    _, samples = lm_eval_files(tmp_path)
    samples.write_bytes(samples.read_bytes() + b"{broken\n")
    out = tmp_path / "s.jsonl"
    ran = gatemark("import", samples, "-o", out, "--json")
    assert (ran.code, ran.json["refused"], ran.json["output"]) == (2, 1, None)
    assert f"gatemark: {samples}:41: " in ran.err
    assert not out.exists()
    excluded = gatemark("import", samples, "-o", out, "--on-bad-line", "exclude")
    assert excluded.code == 0
    assert "20 accepted (0 errored), 1 refused" in excluded.out
    assert len(records(out)) == 20


def test_two_logs_may_not_share_a_sample(gatemark: Run, tmp_path: Path) -> None:
    files = [
        written(tmp_path / f"{name}.json", shapes.inspect_log(every))
        for name, every in (("a", 5), ("b", 4))
    ]
    ran = gatemark("import", *files, "-o", tmp_path / "s.jsonl")
    assert ran.code == 2
    assert f"{files[1]}: id 'add-000', epoch 1 is also in {files[0]}" in ran.err
    assert "and 15 more" in ran.err
    assert not (tmp_path / "s.jsonl").exists()


@pytest.mark.parametrize("tool", ["excel", "zipkin"])
def test_an_unknown_format_says_which_there_are(tool: str, gatemark: Run, tmp_path: Path) -> None:
    log = written(tmp_path / "log.json", shapes.inspect_log())
    ran = gatemark("import", log, "--from", tool)
    assert ran.code == 2
    assert (
        "known: chat-log, csv, deepeval, helm, inspect, langfuse, langfuse-dataset, lm-eval, mlflow"
        in ran.err
    )
    assert len(ran.err.splitlines()) == 1


def test_the_help_names_every_format(gatemark: Run) -> None:
    text = gatemark("import", "--help").out.replace("-\n", "-").replace("\n", " ")
    squeezed = " ".join(text.split()).replace("- ", "-")
    for name in importers().names():
        assert name in squeezed


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (b"\x00\x01\x02", "neither gatemark.sample/1 nor a log in a known format"),
        (b'{"a": NaN}', "neither gatemark.sample/1 nor a log in a known format"),
        (b'{"schema":"gatemark.sample/1","id":"a","scores":{}}\n', "is already gatemark.sample/1"),
    ],
)
def test_what_is_no_log_is_refused_in_one_line(
    content: bytes, words: str, gatemark: Run, tmp_path: Path
) -> None:
    ran = gatemark("import", written(tmp_path / "log.json", content))
    assert ran.code == 2
    assert words in ran.err
    assert len(ran.err.splitlines()) == 1


def test_the_output_must_be_json_lines_and_not_the_log_itself(
    gatemark: Run, tmp_path: Path
) -> None:
    log = written(tmp_path / "log.jsonl", shapes.inspect_log())
    assert "must end in .jsonl" in gatemark("import", log, "-o", tmp_path / "s.csv").err
    before = log.read_bytes()
    ran = gatemark("import", log, "-o", log)
    assert ran.code == 2
    assert "is one of the logs" in ran.err
    assert log.read_bytes() == before
