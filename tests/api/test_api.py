from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Ran
from tests.samples.importers.peer_shapes import COUNT, pydantic_report

import gatemark
from gatemark.packs.init import write_starter


@pytest.fixture
def starter(tmp_path: Path) -> Path:
    write_starter(tmp_path / "evals")
    return tmp_path / "evals" / "pack.yaml"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def scores(path: Path, wrong: int, count: int = 400) -> Path:
    rows = [
        {
            "schema": "gatemark.sample/1",
            "id": f"q{n}",
            "epoch": 1,
            "input": str(n),
            "target": str(n),
            "output": str(n),
            "scores": {"exact": float(n >= wrong)},
        }
        for n in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_every_public_name_can_be_loaded_and_has_a_docstring() -> None:
    for name in gatemark.__all__:
        assert getattr(gatemark, name).__doc__, name
    assert dir(gatemark) == sorted(gatemark.__all__)


def test_importing_gatemark_loads_nothing_else() -> None:
    code = "import gatemark, sys; print([m for m in sys.modules if m.startswith('gatemark.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_run_seals_what_the_command_would_seal(
    starter: Path, store: Path, gatemark: Callable[..., Ran]
) -> None:
    import gatemark as api

    result = api.run(starter, store=store)
    ran = gatemark("run", starter, "--store", store, "--json")
    assert result.verdict == ran.json["verdict"] == "pass"
    assert [finding.rule for finding in result.findings] == [
        finding["rule"] for finding in ran.json["findings"]
    ]
    assert api.verify(store).verdict == "pass"


@pytest.mark.parametrize("candidate", [None, {"python": "app:answer"}])
def test_a_matrix_points_to_the_command(
    starter: Path, store: Path, candidate: dict[str, object] | None
) -> None:
    starter.write_text(starter.read_text() + "matrix: {try: {first: {}, second: {}}}\n")
    with pytest.raises(gatemark.GatemarkError) as refused:
        gatemark.run(starter, store=store, candidate=candidate)
    assert f"gatemark run {starter}" in str(refused.value)
    assert "--cell first" in str(refused.value)
    assert refused.value.exit_code == 2


def test_gate_judges_again_without_calling_anybody(starter: Path, store: Path) -> None:
    result = gatemark.run(starter, store=store)
    stricter = starter.with_name("stricter.yaml")
    stricter.write_text(starter.read_text().replace("score_min: 0.85", "score_min: 0.999"))
    again = gatemark.gate(result, stricter, store=store)
    assert again.verdict == "fail"
    with pytest.raises(gatemark.GateFailedError, match="bench must be") as caught:
        again.raise_for_verdict()
    assert caught.value.exit_code == 1
    assert result.raise_for_verdict() is result


def test_a_limited_run_raises_inconclusive(starter: Path, store: Path) -> None:
    starter.write_text(starter.read_text().replace("min: 0.8,", ""))
    limited = gatemark.run(starter, store=store, limit=20)
    with pytest.raises(gatemark.InconclusiveError) as caught:
        limited.raise_for_verdict()
    assert caught.value.exit_code == 3


def test_samples_of_a_result_become_tables(starter: Path, store: Path) -> None:
    samples = gatemark.run(starter, store=store).samples("golden")
    assert len(samples) == 240
    assert len(samples[:5]) == 5
    table = samples.to_arrow()
    assert table.num_rows == 240
    assert "score.exact" in table.column_names
    with pytest.raises(gatemark.GatemarkError, match=r"keeps no nothing\.candidate"):
        gatemark.run(starter, store=store).samples("nothing")


def test_reports_in_every_form(starter: Path, store: Path, tmp_path: Path) -> None:
    result = gatemark.run(starter, store=store)
    assert result.to_markdown().startswith("**PASS**")
    assert "<script" not in result._repr_html_()
    result.save(tmp_path / "report.json", tmp_path / "report.junit.xml")
    assert json.loads((tmp_path / "report.json").read_text())["id"] == result.id


@pytest.mark.parametrize(("wrong", "verdict"), [(0, "pass"), (80, "fail")])
def test_compare_gives_the_verdict_of_the_command(
    tmp_path: Path, wrong: int, verdict: str, gatemark: Callable[..., Ran]
) -> None:
    import gatemark as api

    base = scores(tmp_path / "base.jsonl", 0)
    cand = scores(tmp_path / "cand.jsonl", wrong)
    found = api.compare(base, cand, margin=0.02)
    ran = gatemark("compare", base, cand, "--margin", "0.02", "--json")
    assert found.verdict == ran.json["verdict"] == verdict
    assert found.report.p_value == ran.json["p_value"]


def test_recorded_samples_may_stand_for_the_candidate(
    starter: Path, store: Path, tmp_path: Path
) -> None:
    with pytest.raises(gatemark.GatemarkError, match="No such file"):
        gatemark.run(starter, store=store, candidate=tmp_path / "missing.jsonl")


@pytest.mark.parametrize("text", ["", "not a log of any tool\n", "a,b\n1,2\n"])
def test_a_table_of_no_known_tool_is_refused(tmp_path: Path, text: str) -> None:
    log = tmp_path / "table.csv"
    log.write_text(text)
    with pytest.raises(gatemark.GatemarkError):
        gatemark.import_log(log)


def test_a_log_of_another_tool_becomes_samples(tmp_path: Path) -> None:
    log = tmp_path / "report.json"
    log.write_text(json.dumps(pydantic_report()))
    samples = gatemark.import_log(log)
    assert len(samples) == COUNT
    assert sum(sample["error"] is not None for sample in samples) == 1


def test_the_store_comes_from_the_environment(
    starter: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEMARK_STORE", str(store))
    gatemark.run(starter)
    assert (store / "gatemark.sqlite3").is_file()


def test_the_stub_names_what_can_be_imported() -> None:
    stub = Path(gatemark.__file__).with_name("__init__.pyi").read_text(encoding="utf-8")
    named = {line.rpartition(" as ")[2] for line in stub.splitlines() if " as " in line}
    assert named == set(gatemark.__all__) - {"__version__"}
