"""The list of shapes in which other tools' public logs come, each with a file of our own.

A shape is written to disk as the tool names its files, recognised without being told the tool, and
imported. All tell one scripted task (see ``peer_shapes``): four lost, three gained.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from tests.samples.importers import table_shapes as tables
from tests.samples.importers.peer_shapes import (
    BASELINE,
    CANDIDATE,
    COUNT,
    deepeval_log,
    dumped,
    inspect_log,
    inspect_members,
    item,
    lm_eval_results,
    lm_eval_rows,
    lost_and_gained,
    mlflow_rows,
    promptfoo_log,
    pydantic_report,
    zipped,
)
from tests.samples.importers.test_columns import MAP
from tests.samples.importers.test_new_forms import snake

from gatemark.samples.importer import Imported, ReadOptions, import_files

Files = dict[str, bytes]


class Shape(NamedTuple):
    """How one tool writes the scripted task, and what must come of it."""

    tool: str
    score: str
    write: Callable[[int], Files]
    """The files of the arm that is wrong at every multiple of a number."""
    shared: int = COUNT
    """Pairs without an error on either side."""
    in_one_file: bool = False
    """Both arms are in every file, as the first and the second."""
    is_partial: bool = False
    repeats: int = 1
    options: dict[str, Any] | None = None


def one(name: str, data: Any) -> Files:
    return {name: data if isinstance(data, bytes) else dumped(data)}


def promptfoo(name: str, data: Callable[[], Any], **more: Any) -> Shape:
    return Shape(
        "promptfoo", "success", lambda _: one(name, data()), COUNT - 1, in_one_file=True, **more
    )


def summary(version: int) -> dict[str, Any]:
    """What one evaluation gave, as promptfoo's versions keep it."""
    if version == 1:
        return tables.promptfoo_first()
    if version == 2:
        return tables.promptfoo_table()
    found: dict[str, Any] = promptfoo_log()["results"] | {"version": version}
    return found


def results_file(version: int) -> dict[str, Any]:
    """The file of one evaluation; the first version had no date."""
    file = {"version": version, "results": summary(version), "config": {"description": "tiny"}}
    if version > 1:
        file["createdAt"] = "2026-11-15T18:19:29.000Z"
    if version > 2:
        file |= {"author": None, "prompts": summary(version)["prompts"], "datasetId": None}
    return file


def record(version: int = 4) -> dict[str, Any]:
    """An evaluation as the server keeps it: rows right under results."""
    body = summary(version)
    return {
        "id": "eval-abc-2026-11-15T18:19:29",
        "createdAt": 1763230769000,
        "description": None,
        "config": {},
        "results": body["results"],
        "prompts": body["prompts"],
        "stats": body["stats"],
        "persisted": True,
    }


def repeated() -> dict[str, Any]:
    """``--repeat 2``: every test once more, under numbers that go on."""
    log = promptfoo_log(crashed=frozenset())
    rows = log["results"]["results"]
    rows += [row | {"testIdx": row["testIdx"] + COUNT} for row in rows]
    log["runtimeOptions"]["repeat"] = 2
    for column in log["results"]["prompts"]:
        for name in ("testPassCount", "testFailCount", "score"):
            column["metrics"][name] *= 2
        for name in ("namedScores", "namedScoresCount", "namedScoreWeights"):
            column["metrics"][name]["correct"] *= 2
    stats = log["results"]["stats"]
    log["results"]["stats"] = {name: 2 * count for name, count in stats.items()}
    return log


def inspect(change: Callable[[dict[str, Any]], object] | None = None, **more: Any) -> Shape:
    def write(every: int) -> Files:
        log = inspect_log(every)
        if change is not None:
            change(log)
        return one("2026-11-15T18-19-29_tiny.json", log)

    return Shape("inspect", "match", write, **more)


def archive(method: int, *, finished: bool = True) -> Shape:
    def write(every: int) -> Files:
        members = inspect_members(inspect_log(every))
        if not finished:
            del members["header.json"]
        return one("2026-11-15T18-19-29_tiny.eval", zipped(members, method))

    return Shape("inspect", "match", write, is_partial=not finished)


def unscored(log: dict[str, Any], change: dict[str, Any]) -> None:
    """One sample without a score, and the mean over those that have one."""
    log["samples"][7] |= change
    values = [s["scores"]["match"]["value"] for s in log["samples"] if s is not log["samples"][7]]
    metric = log["results"]["scores"][0]["metrics"]["accuracy"]
    metric["value"] = values.count("C") / len(values)


def old_inspect(log: dict[str, Any]) -> None:
    """Whole numbers as ids, no times of samples, no list of ids."""
    for number, sample in enumerate(log["samples"]):
        sample["id"] = number
        del sample["total_time"]
    del log["eval"]["dataset"]["sample_ids"]
    log["eval"]["packages"]["inspect_ai"] = "0.3.40"


def table_forms(rows: list[dict[str, Any]], form: str, stem: str) -> Files:
    columns = {name: {str(n): row[name] for n, row in enumerate(rows)} for name in rows[0]}
    return {
        "csv": lambda: one(f"{stem}.csv", tables.csv_of(rows)),
        "tsv": lambda: one(f"{stem}.tsv", tables.csv_of(rows, "\t")),
        "records": lambda: one(f"{stem}.json", rows),
        "lines": lambda: one(f"{stem}.jsonl", tables.json_lines(rows)),
        "columns": lambda: one(f"{stem}.json", columns),
    }[form]()


def ragas(form: str, *, old: bool = False) -> Shape:
    names = {"user_input": "question", "retrieved_contexts": "contexts"}
    names |= {"response": "answer", "reference": "ground_truth"}

    def write(every: int) -> Files:
        rows = tables.ragas_rows(every)
        if old:
            rows = [{names.get(name, name): cell for name, cell in row.items()} for row in rows]
        return table_forms(rows, form, "result")

    return Shape("ragas", "faithfulness", write)


def helm(*, whole: bool, trials: int = 1) -> Shape:
    def write(every: int) -> Files:
        files = one("per_instance_stats.json", tables.helm_stats(every, trials))
        if whole:
            files |= one("scenario_state.json", tables.helm_state(every))
            files |= one("run_spec.json", {"name": "tiny:model=one"})
        return files

    return Shape("helm", "exact_match", write, repeats=trials)


def deepeval(name: str, form: Callable[[dict[str, Any]], Any]) -> Shape:
    return Shape("deepeval", "success", lambda every: one(name, form(deepeval_log(every))))


def lm_eval(*, with_results: bool, filters: tuple[str, ...] = ("strict", "loose")) -> Shape:
    def write(every: int) -> Files:
        data = tables.json_lines(lm_eval_rows(every, filters))
        files = {"samples_tiny_gen_2026-11-15T18-19-29.jsonl": data}
        if with_results:
            files |= one("results_2026-11-15T18-19-29.json", lm_eval_results(every))
        return files

    return Shape("lm-eval", "exact_match/strict", write)


def openai(*, finished: bool) -> Shape:
    def write(every: int) -> Files:
        rows = tables.openai_events(every)
        return one(
            "2611152200ABCDEF_tiny.jsonl", tables.json_lines(rows if finished else rows[:-1])
        )

    return Shape("openai-evals", "match", write, is_partial=not finished)


def mlflow(form: str) -> Shape:
    return Shape("mlflow", "exact", lambda every: table_forms(mlflow_rows(every), form, "eval"))


def pydantic(form: Callable[[int], Any], **more: Any) -> Shape:
    return Shape("pydantic-evals", "Equals", lambda every: one("report.json", form(every)), **more)


def mapped(form: str) -> Shape:
    def write(every: int) -> Files:
        return table_forms(tables.plain_rows(every), form, "table")

    return Shape("csv", "correct", write, options={"columns": MAP})


SHAPES: dict[str, Shape] = {
    **{
        f"promptfoo {kind}, version {version}": promptfoo("latest.json", partial(make, version))
        for kind, make in (
            ("summary", summary),
            ("results file", results_file),
            ("shared results file", lambda version: {"data": results_file(version)}),
        )
        for version in (1, 2, 3, 4)
    },
    "promptfoo export": promptfoo("output.json", promptfoo_log),
    "promptfoo eval record": promptfoo("eval.json", record),
    "promptfoo shared eval record": promptfoo("eval.json", lambda: {"data": record()}),
    "promptfoo table of the page": promptfoo(
        "table.json",
        lambda: {"table": summary(2)["table"], "config": {}, "id": "eval-1", "totalCount": COUNT},
    ),
    "promptfoo YAML": promptfoo(
        "output.yaml", lambda: yaml.safe_dump(json.loads(dumped(promptfoo_log()))).encode()
    ),
    "promptfoo CSV": promptfoo("output.csv", tables.promptfoo_csv),
    "promptfoo JSON Lines": promptfoo(
        "output.jsonl", lambda: tables.json_lines(promptfoo_log()["results"]["results"])
    ),
    "promptfoo --repeat": Shape(
        "promptfoo",
        "success",
        lambda _: one("output.json", repeated()),
        COUNT * 2,
        in_one_file=True,
        repeats=2,
    ),
    "inspect JSON": inspect(),
    "inspect JSON of an old version": inspect(old_inspect),
    "inspect .eval, stored": archive(0),
    "inspect .eval, deflate": archive(8),
    "inspect .eval, zstd": archive(93),
    "inspect .eval, unfinished": archive(93, finished=False),
    "inspect epochs": Shape(
        "inspect",
        "match",
        lambda every: one("log.json", inspect_log(every, 2)),
        2 * COUNT,
        repeats=2,
    ),
    "inspect limit at the size": inspect(lambda log: log["eval"]["config"].update(limit=COUNT)),
    "inspect limit above the size": inspect(lambda log: log["eval"]["config"].update(limit=999)),
    "inspect cancelled": inspect(lambda log: log.update(status="cancelled"), is_partial=True),
    "inspect error": inspect(lambda log: log.update(status="error"), is_partial=True),
    "inspect with a crashed sample": inspect(
        lambda log: unscored(log, {"error": {"message": "RuntimeError('x')"}, "scores": {}}),
        shared=COUNT - 1,
    ),
    "inspect with NaN": inspect(
        lambda log: unscored(log, {"scores": {"match": {"value": float("nan")}}}),
        shared=COUNT - 1,
    ),
    "deepeval results folder": deepeval("test_run_20261115_220000.json", lambda log: log),
    "deepeval .latest_test_run.json": deepeval(
        ".latest_test_run.json", lambda log: {"testRunData": log, "testRunLink": None}
    ),
    "deepeval .latest_run_full.json": deepeval(".latest_run_full.json", lambda log: log),
    "deepeval evaluate()": deepeval("evaluated.json", snake),
    "deepeval test_results": deepeval("evaluated.json", lambda log: snake(log)["test_results"]),
    "deepeval with NaN": deepeval(
        "test_run_20261115_220000.json",
        lambda log: [
            log["testCases"][7]["metricsData"].append({"name": "Tone", "score": float("nan")}),
            log,
        ][1],
    ),
    "lm-eval samples": lm_eval(with_results=False),
    "lm-eval samples and results": lm_eval(with_results=True),
    "lm-eval one filter": lm_eval(with_results=False, filters=("strict",)),
    "mlflow records": mlflow("records"),
    "mlflow lines": mlflow("lines"),
    "mlflow columns": mlflow("columns"),
    "pydantic-evals report": pydantic(pydantic_report, shared=COUNT - 1),
    "pydantic-evals reports": pydantic(lambda every: [pydantic_report(every)], shared=COUNT - 1),
    "pydantic-evals without failures": pydantic(lambda every: pydantic_report(every, None)),
    "helm statistics": helm(whole=False),
    "helm run folder": helm(whole=True),
    "helm trials": helm(whole=True, trials=2)._replace(shared=2 * COUNT),
    "openai evals": openai(finished=True),
    "openai evals, unfinished": openai(finished=False),
    **{f"ragas {form}": ragas(form) for form in ("csv", "records", "lines", "columns")},
    **{f"ragas 0.1 {form}": ragas(form, old=True) for form in ("csv", "records")},
    **{f"any table, {form}": mapped(form) for form in ("csv", "tsv", "records", "lines")},
}


def imported(shape: Shape, folder: Path, every: int, arm: str) -> Imported:
    """What comes of the files when nobody says which tool wrote them."""
    folder.mkdir()
    for name, data in shape.write(every).items():
        (folder / name).write_bytes(data)
    paths = sorted(folder.iterdir())
    if shape.tool == "helm":
        paths = [folder]
    if shape.tool == "lm-eval":
        paths = [path for path in paths if path.suffix == ".jsonl"]
    options = ReadOptions(arm=arm if shape.in_one_file else None, **(shape.options or {}))
    tool = "csv" if shape.options else "auto"
    (found,) = import_files(paths, tool=tool, options=options)
    return found


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_public_shape_is_recognised_and_tells_the_task(shape: Shape, tmp_path: Path) -> None:
    base = imported(shape, tmp_path / "base", BASELINE, "1")
    cand = imported(shape, tmp_path / "cand", CANDIDATE, "2")
    assert base.tool == cand.tool == shape.tool
    assert (base.refused, base.origin.contradictions) == ((), ())
    lost_and = lost_and_gained(base, cand, shape.score)
    assert lost_and == (shape.shared, 4 * shape.repeats, 3 * shape.repeats)
    assert bool(base.origin.partial) == shape.is_partial
    assert max(sample.epoch for sample in base.samples) == shape.repeats


ITEM = tables.langfuse_items()[1] | {
    "sourceObservationId": None,
    "createdAt": "2026-11-15T18:19:29.000Z",
    "updatedAt": "2026-11-15T18:19:29.000Z",
}
ASKED: dict[str, Files] = {
    "one item": one("item.json", ITEM),
    "items as a list": one("items.json", [ITEM]),
    "items as lines": one("items.jsonl", dumped(ITEM) + b"\n"),
    "a page of the interface": one(
        "items.json",
        {"data": [ITEM], "meta": {"page": 1, "limit": 50, "totalItems": 1, "totalPages": 1}},
    ),
    "a data set with its items": one(
        "dataset.json",
        {
            "id": "d1",
            "name": "tiny",
            "projectId": "p1",
            "description": None,
            "metadata": None,
            "createdAt": "2026-11-15T18:19:29.000Z",
            "updatedAt": "2026-11-15T18:19:29.000Z",
            "items": [ITEM],
            "runs": ["run-1"],
        },
    ),
    "items of the Python client": one(
        "items.json",
        [
            {
                "id": ITEM["id"],
                "status": "ACTIVE",
                "input": ITEM["input"],
                "expected_output": ITEM["expectedOutput"],
                "metadata": ITEM["metadata"],
                "source_trace_id": "trace-1",
                "source_observation_id": None,
                "dataset_id": "d1",
                "dataset_name": "tiny",
            }
        ],
    ),
    "items as a table": one(
        "items.csv",
        tables.csv_of([ITEM | {"metadata": json.dumps(ITEM["metadata"])}]),
    ),
    "an item without an expected output": one("items.json", [ITEM | {"expectedOutput": None}]),
}


@pytest.mark.parametrize("form", ASKED)
def test_items_of_langfuse_are_recognised_in_every_form(form: str, tmp_path: Path) -> None:
    ((name, data),) = ASKED[form].items()
    (tmp_path / name).write_bytes(data)
    (found,) = import_files([tmp_path / name])
    assert found.tool == "langfuse-dataset"
    (sample,) = found.samples
    assert (sample.id, sample.input) == (item(1), {"question": "1+1"})
    assert sample.target == (None if "without" in form else "2")
    assert sample.tags == {"lane": "odd", "source_trace": "trace-1"}
    assert found.lineage["dataset"] == "tiny"
