from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from tests.docs.transcript import SERVER, command_server

from gatemark.ci.workflows import CI_SERVICES, CiService, render_workflow, write_workflow
from gatemark.core.errors import RefusedError

from .github_server import TOKEN, github_comments

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = {
    "github": "github-workflows.json",
    "gitlab": "gitlab-ci.json",
    "azure": "azure-pipelines.json",
}


def published_schema(name: str) -> Any:
    """A schema that the service publishes, as check-jsonschema carries it."""
    folder = files("check_jsonschema.builtin_schemas.vendor")
    return json.loads(folder.joinpath(name).read_text("utf-8"))


def problems(document: Any, schema: Any) -> list[str]:
    validator = jsonschema.validators.validator_for(schema)(schema)
    return [error.message for error in validator.iter_errors(document)]


def loaded(text: str) -> Any:
    # YAML 1.1 reads the key "on" as true; the services do not.
    document = yaml.safe_load(text)
    return {"on" if key is True else key: value for key, value in document.items()}


@pytest.mark.parametrize("service", CI_SERVICES)
def test_workflow_files_fit_the_schema_of_their_service(service: CiService) -> None:
    document = loaded(render_workflow(service, "evals/pack.yaml"))
    assert problems(document, published_schema(SCHEMAS[service])) == []


@pytest.mark.parametrize("service", CI_SERVICES)
def test_the_schemas_notice_a_broken_workflow(service: CiService) -> None:
    text = render_workflow(service, "p.yaml").replace("script:", "scrip:").replace("run:", "rnu:")
    assert problems(loaded(text), published_schema(SCHEMAS[service]))


@pytest.mark.parametrize("service", CI_SERVICES)
def test_every_gatemark_command_of_a_workflow_exists(service: CiService) -> None:
    from gatemark.cli.main import VERBS

    text = render_workflow(service, "evals/pack.yaml")
    used = {part.split()[0] for part in text.split("gatemark ")[1:] if part.split()}
    assert {"lint", "run"} <= used & set(VERBS)
    assert "PACK_FILE" not in text


def test_a_workflow_is_never_overwritten(tmp_path: Path) -> None:
    target = write_workflow("github", "pack.yaml", tmp_path)
    assert target == tmp_path / ".github/workflows/gatemark.yml"
    target.write_text("mine")
    with pytest.raises(RefusedError, match="already there"):
        write_workflow("github", "pack.yaml", tmp_path)
    assert target.read_text() == "mine"


def test_the_action_fits_its_schema() -> None:
    action = loaded((ROOT / "action.yml").read_text("utf-8"))
    assert problems(action, published_schema("github-actions.json")) == []


def test_inputs_of_the_action_never_become_text_of_a_script() -> None:
    action = loaded((ROOT / "action.yml").read_text("utf-8"))
    assert all("${{" not in step.get("run", "") for step in action["runs"]["steps"])


@pytest.mark.parametrize("place", ["action", "workflow"])
@pytest.mark.parametrize("status", ["", "0", "1", "2", "3", "4", "5", "137"])
def test_the_job_is_green_after_exit_code_0_alone(place: str, status: str) -> None:
    action = loaded((ROOT / "action.yml").read_text("utf-8"))["runs"]["steps"]
    workflow = loaded(render_workflow("github", "pack.yaml"))["jobs"]["gate"]["steps"]
    step = {"action": action, "workflow": workflow}[place][-1]
    assert (step["name"], step["env"]["STATUS"]) == ("Verdict", "${{ steps.gate.outputs.status }}")
    environ = {**os.environ, "STATUS": status, "INCONCLUSIVE": "fail"}
    done = subprocess.run(["bash", "-e", "-c", step["run"]], env=environ, check=False)
    assert (done.returncode == 0) == (status == "0")


PACK = """\
gatemark: 1
name: echo
version: 1
asset: {kind: prompt, name: echo}
score_min: 0.5
regression_max: 0.1
required_suites: [golden]
suites:
  - {id: golden, kind: golden, weight: 1.0, min: MINIMUM, dataset: data.jsonl, scorer: exact}
targets:
  candidate: {recorded: answers.jsonl}
  baseline: none
"""


def action_run(folder: Path, minimum: str, api: str, pack: str = "pack.yaml") -> dict[str, str]:
    """Run the script of the action as a job would; return its outputs."""
    rows = [{"id": f"q{n}", "input": str(n), "target": str(n)} for n in range(20)]
    answers = [
        {"schema": "gatemark.sample/1", **row, "epoch": 1, "output": row["target"], "scores": {}}
        for row in rows
    ]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answers))
    (folder / "pack.yaml").write_text(PACK.replace("MINIMUM", minimum))
    (folder / "event.json").write_text('{"pull_request": {"number": 7}}')
    shell = folder / "bin"
    shell.mkdir(exist_ok=True)
    client = f'-I -S "{SERVER}" "{command_server()}" run'
    for name, words in (("gatemark", client), ("python", "")):
        script = shell / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        script.chmod(0o755)
    (folder / "output").write_text("")
    environ = {
        **os.environ,
        "PATH": f"{shell}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "PACK": pack,
        "JOBS": "2",
        "COMMENT_TOKEN": TOKEN,
        "GITHUB_API_URL": api,
        "GITHUB_REPOSITORY": "acme/help-desk",
        "GITHUB_EVENT_PATH": str(folder / "event.json"),
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
    }
    script = ROOT / "tools" / "github_action.sh"
    done = subprocess.run(
        ["bash", str(script)], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert TOKEN not in done.stdout + done.stderr
    lines = (folder / "output").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.slow
def test_the_action_comments_once_and_replaces_its_comment(tmp_path: Path) -> None:
    with github_comments() as github:
        first = action_run(tmp_path, "0.9", github.url)
        reports = tmp_path / "gatemark-reports"
        assert (first["status"], first["verdict"]) == ("0", "pass")
        assert first["result-id"].startswith("sha256:")
        names = {path.name for path in reports.iterdir()}
        expected = {"result.json", "report.html", "report.md", "report.junit.xml"}
        assert expected | {"gatemark.sarif", "comment.md"} == names
        (tmp_path / "pack.yaml").unlink()
        second = action_run(tmp_path, "0.9", github.url)
        assert second["result-id"] == first["result-id"]
        (comment,) = github.comments
        assert comment["body"] == (reports / "comment.md").read_text()
        assert (tmp_path / "summary.md").read_text().count("Gatemark: PASS") == 2


@pytest.mark.slow
def test_a_pack_that_cannot_run_has_a_status_and_no_verdict(tmp_path: Path) -> None:
    with github_comments() as github:
        outputs = action_run(tmp_path, "0.9", github.url, pack="missing.yaml")
        assert outputs == {"status": "2"}
        assert github.comments == []
        assert "could not run the pack (exit 2)" in (tmp_path / "summary.md").read_text()
