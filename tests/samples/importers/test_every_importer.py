"""What holds for every importer: detection, legal records, and no traceback on any bytes."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.samples.importers import table_shapes as tables
from tests.samples.importers.peer_shapes import (
    deepeval_log,
    dumped,
    file_of,
    inspect_log,
    inspect_members,
    lm_eval_lines,
    lm_eval_results,
    lm_eval_rows,
    mlflow_rows,
    promptfoo_log,
    pydantic_report,
    zipped,
)

from gatemark.core.errors import BadInputError, UsageError
from gatemark.samples.importer import (
    ForeignFile,
    ForeignLimits,
    ReadOptions,
    detect,
    import_files,
    importers,
    list_arms,
    open_foreign,
    to_record,
)
from gatemark.samples.records import SCHEMA, Sample

CHAT = {
    "question": "2+2",
    "is_correct": True,
    "history": [{"role": "assistant", "name": "adder", "content": "4"}],
}
OTLP_TRACE = {
    "resourceSpans": [
        {
            "scopeSpans": [
                {
                    "spans": [
                        {
                            "traceId": "t1",
                            "spanId": "s1",
                            "name": "ask",
                            "startTimeUnixNano": "1000000",
                            "endTimeUnixNano": "2000000",
                            "attributes": [
                                {"key": "input.value", "value": {"stringValue": "2+2"}},
                                {"key": "output.value", "value": {"stringValue": "4"}},
                            ],
                        }
                    ]
                }
            ]
        }
    ]
}
OBSERVATION = {
    "id": "o1",
    "trace_id": "t1",
    "parent_observation_id": "",
    "type": "SPAN",
    "start_time": "2026-11-01 10:00:00.000000",
    "end_time": "2026-11-01 10:00:01.000000",
    "input": "2+2",
    "output": "4",
}
LOGS: dict[str, tuple[str, tuple[ForeignFile, ...], str | None]] = {
    "inspect json": ("inspect", (file_of(inspect_log(epochs=2)),), None),
    "inspect deflate": (
        "inspect",
        (file_of(zipped(inspect_members(inspect_log()), 8), "a.eval"),),
        None,
    ),
    "inspect zstd": (
        "inspect",
        (file_of(zipped(inspect_members(inspect_log()), 93), "a.eval"),),
        None,
    ),
    "lm-eval": ("lm-eval", (lm_eval_lines(lm_eval_rows()), file_of(lm_eval_results())), None),
    "promptfoo json": ("promptfoo", (file_of(promptfoo_log()),), "baseline"),
    "promptfoo lines": (
        "promptfoo",
        (file_of(b"\n".join(map(dumped, promptfoo_log()["results"]["results"])), "a.jsonl"),),
        "candidate",
    ),
    "deepeval": ("deepeval", (file_of(deepeval_log()),), None),
    "mlflow": ("mlflow", (file_of(mlflow_rows()),), None),
    "mlflow lines": ("mlflow", (file_of(b"\n".join(map(dumped, mlflow_rows()))),), None),
    "pydantic-evals": ("pydantic-evals", (file_of(pydantic_report()),), None),
    "otlp": ("otlp", (file_of(OTLP_TRACE),), None),
    "langfuse": ("langfuse", (file_of(dumped(OBSERVATION), "o.jsonl"),), None),
    "pydantic-evals array": ("pydantic-evals", (file_of([pydantic_report()]),), None),
    "promptfoo table": ("promptfoo", (file_of(tables.promptfoo_table()),), "1"),
    "promptfoo csv": ("promptfoo", (file_of(tables.promptfoo_csv(), "p.csv"),), "2"),
    "deepeval latest": ("deepeval", (file_of({"testRunData": deepeval_log()}),), None),
    "ragas": ("ragas", (file_of(tables.csv_of(tables.ragas_rows()), "r.csv"),), None),
    "openai-evals": (
        "openai-evals",
        (file_of(tables.json_lines(tables.openai_events()), "o.jsonl"),),
        None,
    ),
    "helm": ("helm", (file_of(tables.helm_stats()),), None),
    "chat-log": ("chat-log", (file_of(CHAT),), None),
    "langfuse data set": ("langfuse-dataset", (file_of(tables.langfuse_items()),), None),
}
TOOLS = (
    *("chat-log", "csv", "deepeval", "helm", "inspect", "langfuse", "langfuse-dataset", "lm-eval"),
    *("mlflow", "openai-evals", "otlp", "promptfoo", "pydantic-evals", "ragas"),
)
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["C", "NaN", "", "success", "yes"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def assert_legal_or_refused(tool: str, files: Any, **options: Any) -> None:
    """Either every sample is a legal record, or the whole is a BadInputError with a message."""
    try:
        imported = importers().get(tool).read(list(files), ReadOptions(**options))
    except BadInputError as error:
        problems = error.lines()
    else:
        problems = ()
    if problems:
        assert all(problems)
        return
    assert imported.samples
    keys = [(sample.id, sample.epoch) for sample in imported.samples]
    assert keys == sorted(set(keys))
    for sample in imported.samples:
        decoded = msgspec.json.decode(msgspec.json.encode(to_record(sample)), type=Sample)
        assert [p for rule in SCHEMA.form("sample").rules for p in rule(decoded)] == []


def test_the_registry_holds_exactly_the_importers_of_this_workspace():
    assert importers().names() == TOOLS
    assert importers().broken == {}


@pytest.mark.parametrize(("tool", "files", "_arm"), LOGS.values(), ids=LOGS)
def test_every_log_is_recognised_as_its_tools_and_no_other(tool, files, _arm):
    for file in files:
        assert detect(file, importers()).name == tool


@pytest.mark.parametrize(("tool", "files", "_arm"), LOGS.values(), ids=LOGS)
def test_a_byte_order_mark_changes_nothing(tool, files, _arm):
    for file in files:
        if not file.data.startswith(b"PK"):
            marked = ForeignFile(name=file.name, data=b"\xef\xbb\xbf" + file.data)
            assert detect(marked, importers()).name == tool


@pytest.mark.parametrize(("tool", "files", "arm"), LOGS.values(), ids=LOGS)
def test_every_emitted_record_is_a_legal_sample(tool, files, arm):
    imported = importers().get(tool).read(files, ReadOptions(arm=arm))
    for sample in imported.samples:
        record = to_record(sample)
        decoded = msgspec.convert(record, Sample)
        fields = [f.name for f in msgspec.structs.fields(type(sample))]
        left_out = {"origin", "cost", "tokens"} - set(record)
        assert set(record) | left_out == {"schema", *fields}
        # What an answer cost and when it was given is told by runs of our own.
        unset = {"origin", "cost", "tokens", "answered_at"}
        assert {f.name for f in msgspec.structs.fields(Sample)} == {*record, *unset}
        named = msgspec.structs.replace(sample, origin=imported.origin)
        assert msgspec.convert(to_record(named), Sample).origin == imported.origin
        assert [p for rule in SCHEMA.form("sample").rules for p in rule(decoded)] == []


@pytest.mark.parametrize(("tool", "files", "arm"), LOGS.values(), ids=LOGS)
def test_reading_twice_gives_the_same(tool, files, arm):
    reader = importers().get(tool)
    assert reader.read(files, ReadOptions(arm=arm)) == reader.read(files, ReadOptions(arm=arm))


def test_an_unknown_format_lists_the_known_ones():
    with pytest.raises(BadInputError, match="csv, deepeval, helm, inspect, langfuse"):
        detect(file_of({"hello": 1}), importers())


def test_a_file_of_two_formats_is_ambiguous():
    both = pydantic_report() | deepeval_log()
    with pytest.raises(BadInputError, match="looks like several formats: deepeval, pydantic-evals"):
        detect(file_of(both), importers())


def test_a_tool_nobody_knows_is_a_usage_error(tmp_path):
    path = tmp_path / "log.json"
    path.write_bytes(dumped(deepeval_log()))
    with pytest.raises(UsageError, match="did you mean 'deepeval'"):
        import_files([path], tool="deepval")


def test_files_are_detected_read_and_listed_by_path(tmp_path):
    path = tmp_path / "log.json"
    path.write_bytes(dumped(deepeval_log()))
    (imported,) = import_files([path])
    assert (imported.tool, len(imported.samples)) == ("deepeval", 20)
    assert [arm.name for arm in list_arms([path])] == ["run-1"]
    other = tmp_path / "other.json"
    other.write_bytes(dumped(pydantic_report()))
    assert len(import_files([path, path])) == 2
    with pytest.raises(BadInputError, match="several tools: deepeval, pydantic-evals"):
        import_files([path, other])
    with pytest.raises(BadInputError, match="no file was named"):
        import_files([])


def test_empty_missing_and_oversized_files_are_refused(tmp_path):
    path = tmp_path / "log.json"
    path.write_bytes(b" \n")
    with pytest.raises(BadInputError, match="is empty"):
        import_files([path])
    with pytest.raises(BadInputError, match="cannot be read"):
        import_files([tmp_path / "nowhere.json"])
    with pytest.raises(BadInputError, match="a folder without a log"):
        import_files([tmp_path])
    path.write_bytes(b"0123456789")
    with pytest.raises(BadInputError, match="larger than 5 bytes"):
        open_foreign(path, ForeignLimits(file_bytes=5))


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_packed_logs_are_unpacked_within_the_limit_or_refused(tmp_path, pack):
    path = tmp_path / "log.json.packed"
    plain = dumped(deepeval_log())
    packed = pack(plain)
    path.write_bytes(packed)
    (imported,) = import_files([path])
    assert (imported.tool, len(imported.samples)) == ("deepeval", 20)
    path.write_bytes(pack(b" " * 1_000_000))
    with pytest.raises(BadInputError, match=r"(more|larger) than 1000 bytes"):
        open_foreign(path, ForeignLimits(file_bytes=1000))
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(BadInputError):
        import_files([path])
    path.write_bytes(packed[:4] + b"\xff" * 40)
    with pytest.raises(BadInputError, match="damaged or truncated"):
        import_files([path])


@pytest.mark.parametrize(("tool", "files", "arm"), LOGS.values(), ids=LOGS)
def test_a_log_cut_off_anywhere_is_refused_or_still_legal(tool, files, arm):
    (first, *rest) = files
    for share in range(20):
        cut = first.data[: len(first.data) * share // 20]
        assert_legal_or_refused(tool, [ForeignFile(name=first.name, data=cut), *rest], arm=arm)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"PK\x03\x04",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"eval":' + b'{"a":' * 50_000,
        b"null",
        b"[]",
        b"{}",
        b"[1]",
        b'"x"',
        b"\xff\xfe{",
        b'{"cases": [], "failures": []}',
        b'{"samples": [], "eval": {}, "status": "success"}',
    ],
)
def test_garbage_is_refused_in_words(tool, data):
    with pytest.raises(BadInputError) as refusal:
        importers().get(tool).read([file_of(data)], ReadOptions())
    assert all(refusal.value.lines())


def test_archives_inside_archives_are_not_opened():
    inner = b"0" * 1_000_000
    for _ in range(3):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("header.json", inner)
            archive.writestr("samples/a_epoch_1.json", inner)
        inner = stream.getvalue()
    with pytest.raises(BadInputError, match=r"header\.json"):
        importers().get("inspect").read([file_of(inner, "a.eval")], ReadOptions())


@pytest.mark.parametrize(
    "tool",
    [tool for tool in TOOLS if tool not in ("otlp", "langfuse", "openai-evals", "helm", "csv")],
)
def test_values_nested_too_deeply_refuse_their_row_only(tool):
    deep: Any = "x"
    for _ in range(61):
        deep = [deep]
    mutated, key = {
        "inspect": (inspect_log(), ("samples", "input")),
        "deepeval": (deepeval_log(), ("testCases", "input")),
        "pydantic-evals": (pydantic_report(), ("cases", "inputs")),
        "mlflow": (mlflow_rows(), (None, "response")),
        "promptfoo": (promptfoo_log(), ("results", "vars")),
        "lm-eval": (lm_eval_rows(), (None, "target")),
        "ragas": (tables.ragas_rows(), (None, "user_input")),
        "langfuse-dataset": (tables.langfuse_items(), (None, "input")),
        "chat-log": ([dict(CHAT), dict(CHAT)], (None, "question")),
    }[tool]
    rows = mutated if key[0] is None else mutated[key[0]]
    rows = rows["results"] if isinstance(rows, dict) else rows
    rows[0][key[1]] = deep
    arm = {"promptfoo": "candidate"}.get(tool)
    files = [lm_eval_lines(rows)] if tool == "lm-eval" else [file_of(mutated)]
    imported = importers().get(tool).read(files, ReadOptions(arm=arm))
    (refusal,) = imported.refused
    assert refusal.reason == "nested deeper than 60 levels"


@pytest.mark.parametrize(
    ("tool", "log", "number"),
    [
        ("deepeval", deepeval_log(), b'"score": 1.0'),
        ("mlflow", mlflow_rows(), b'"closeness/value": 1.0'),
        ("promptfoo", promptfoo_log(), b'"score": 1,'),
        ("pydantic-evals", pydantic_report(), b'"value": 1.0'),
    ],
)
@pytest.mark.parametrize("token", [b"NaN", b"Infinity", b"-Infinity"])
def test_nan_and_infinity_are_missing_with_a_reason(tool, log, number, token):
    tail = b"," if number.endswith(b",") else b""
    data = dumped(log).replace(number, number.split(b":")[0] + b": " + token + tail)
    assert b": " + token in data
    arm = "1" if tool == "promptfoo" else None
    imported = importers().get(tool).read([file_of(data)], ReadOptions(arm=arm))
    told = [sample.tags for sample in imported.samples if sample.tags]
    assert any(f"wrote {token.decode()}" in text for tags in told for text in tags.values())
    for sample in imported.samples:
        msgspec.convert(to_record(sample), Sample)


def test_integers_too_large_for_canonical_json_are_kept_as_text():
    log = deepeval_log()
    log["testCases"][0]["input"] = {"id": 2**60}
    imported = importers().get("deepeval").read([file_of(log)], ReadOptions())
    assert imported.samples[0].input == {"id": str(2**60)}
    assert "1 integers beyond 2**53 are stored as text" in imported.notes


@pytest.mark.parametrize("tool", TOOLS)
@given(data=st.binary(max_size=200))
@settings(deadline=None, max_examples=60)
def test_no_bytes_break_a_reader(tool, data):
    assert_legal_or_refused(tool, [file_of(data)])
    assert_legal_or_refused(tool, [file_of(b"PK\x03\x04" + data, "a.eval")])
    importers().get(tool).sniff(data, "log.json")


@pytest.mark.parametrize(("tool", "files", "arm"), LOGS.values(), ids=LOGS)
@given(data=st.data())
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_no_damaged_byte_breaks_a_reader(tool, files, arm, data):
    (first, *rest) = files
    damaged = bytearray(first.data)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    assert_legal_or_refused(
        tool, [ForeignFile(name=first.name, data=bytes(damaged)), *rest], arm=arm
    )


@pytest.mark.parametrize(
    ("tool", "make", "arm"),
    [
        ("inspect", inspect_log, None),
        ("promptfoo", promptfoo_log, "baseline"),
        ("deepeval", deepeval_log, None),
        ("mlflow", mlflow_rows, None),
        ("pydantic-evals", pydantic_report, None),
        ("lm-eval", lm_eval_rows, None),
        ("lm-eval", lm_eval_results, None),
        ("promptfoo", tables.promptfoo_table, "1"),
        ("promptfoo", tables.promptfoo_first, "1"),
        ("ragas", tables.ragas_rows, None),
        ("openai-evals", tables.openai_events, None),
        ("helm", tables.helm_stats, None),
        ("langfuse-dataset", tables.langfuse_items, None),
    ],
)
@given(data=st.data())
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_no_value_in_a_wrong_place_breaks_a_reader(tool, make, arm, data):
    log = make()
    place, key = log, data.draw(st.sampled_from(_keys(log)))
    while isinstance(place[key], dict | list) and place[key] and data.draw(st.integers(0, 9)) > 0:
        place = place[key]
        key = data.draw(st.sampled_from(_keys(place)))
    if data.draw(st.booleans()):
        place[key] = data.draw(JSON_VALUES)
    else:
        del place[key]
    if tool == "lm-eval":
        samples = lm_eval_lines(log if make is lm_eval_rows else lm_eval_rows())
        results = file_of(lm_eval_results() if make is lm_eval_rows else log)
        assert_legal_or_refused(tool, [samples, results])
    elif tool == "openai-evals":
        assert_legal_or_refused(tool, [file_of(tables.json_lines(log), "o.jsonl")])
    else:
        assert_legal_or_refused(tool, [file_of(json.dumps(log).encode())], arm=arm)


def _keys(value: Any) -> list[Any]:
    return sorted(value) if isinstance(value, dict) else list(range(len(value)))
