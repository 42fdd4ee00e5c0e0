from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.docs.transcript import steps_of
from tests.targets.rigs import Answer, Request, serving

ROOT = Path(__file__).resolve().parents[2]


def build(folder: Path) -> tuple[Path, Path]:
    """Build wheel and source distribution; return their paths."""
    environ = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=ROOT,
        env=environ,
        check=True,
        capture_output=True,
    )
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


def topic_by_the_prompt(request: Request) -> Answer:
    """A model that knows the topics only when its prompt lists them."""
    system, user = (message["content"] for message in request.body["messages"])
    words = {"leave": "times", "cost": "prices", "bicycle": "luggage", "storm": "weather"}
    text = user.lower() if "luggage" in system else user
    topic = next((topic for word, topic in words.items() if word in text), "I do not know")
    message = {"role": "assistant", "content": f"Topic: {topic}"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return Answer({"model": "small-1", "choices": [choice]})


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(tmp_path_factory.mktemp("dist"))


@pytest.mark.slow
def test_the_same_tree_builds_the_same_bytes(built: tuple[Path, Path], tmp_path: Path) -> None:
    again = build(tmp_path)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in built]


@pytest.mark.slow
def test_the_wheel_has_types_and_data_and_nothing_else(built: tuple[Path, Path]) -> None:
    names = zipfile.ZipFile(built[0]).namelist()
    assert {"gatemark/py.typed", "gatemark/__init__.pyi", "gatemark/ci/templates/github.yml"} <= {
        *names
    }
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"gatemark"}
    assert not [name for name in names if name.endswith((".pyc", ".mypy_cache"))]


def interpreter(version: str) -> str:
    """The path of a Python of this version; skips where there is none."""
    found = shutil.which(f"python{version}")
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for path in (*kept, *((Path(found),) if found else ())):
        said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
        if said.stdout.startswith(f"Python {version}."):
            return str(path)
    pytest.skip(f"there is no Python {version} here: what is below was not tried on it")


def installed(python: str, wheel: Path, folder: Path) -> Path:
    """A fresh environment with the wheel and what it needs; skips where pip finds no packages."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True, capture_output=True)
    ours = folder / "bin" / "python"
    pip = [
        str(ours),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-compile",
    ]
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*pip, "-c", str(ROOT / "locks" / "requirements.lock"), str(wheel)],
        capture_output=True,
        text=True,
        check=False,
        env=environ,
    )
    absent = ("No matching distribution", "Could not find a version", "connection", "network")
    if done.returncode and any(words in done.stderr for words in absent):
        pytest.skip(f"pip found no packages, so nothing was tried: {done.stderr.strip()[-300:]}")
    assert done.returncode == 0, done.stderr
    return ours


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_a_newcomer_gates_with_the_installed_wheel(
    built: tuple[Path, Path], tmp_path: Path, version: str
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    python = str(installed(interpreter(version), built[0], tmp_path / "venv"))
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    # As from the README: the logs and questions of the checkout, and its pack for a model.
    shutil.copytree(ROOT / "examples", work / "examples")
    steps = steps_of((ROOT / "README.md").read_text(encoding="utf-8"))
    files = {step.file: step.text for step in steps if step.file is not None}

    def gatemark(*words: str) -> subprocess.CompletedProcess[str]:
        command = [python, "-m", "gatemark", *words]
        return subprocess.run(
            command, cwd=work, env=environ, capture_output=True, text=True, check=False
        )

    code = "import gatemark; print(gatemark.__file__)"
    found = subprocess.run(
        [python, "-c", code], env=environ, cwd=work, capture_output=True, text=True, check=True
    )
    assert Path(found.stdout.strip()).is_relative_to(tmp_path / "venv")
    assert gatemark("doctor").returncode == 0
    logs = ("examples/ferry/base.json", "examples/ferry/cand.json")
    assert gatemark("compare", *logs).returncode == 1
    with serving(topic_by_the_prompt) as server:
        text = files["prompt-pack.yaml"].replace("http://127.0.0.1:8000", server.url)
        (work / "prompt-pack.yaml").write_text(text)
        environ["MODEL_KEY"] = "sk-of-a-test"
        gated = gatemark("run", "prompt-pack.yaml", "-j", "4")
    assert gated.returncode == 0, gated.stdout + gated.stderr
    assert "sk-of-a-test" not in gated.stdout + gated.stderr
    assert {request.headers["Authorization"] for request in server.requests} == {
        "Bearer sk-of-a-test"
    }
    assert gatemark("init", "evals", "--ci", "github").returncode == 0
    assert (work / ".github/workflows/gatemark.yml").is_file()
    ran = gatemark("run", "evals/pack.yaml", "--json")
    assert ran.returncode in (0, 1, 3), ran.stderr
    (work / "result.json").write_text(ran.stdout)
    comment = gatemark("comment", "result.json")
    assert comment.stdout.startswith("<!-- gatemark:")
    assert json.loads(ran.stdout)["verdict"].upper() in comment.stdout
    both = ("--scholar", "examples/two-annotators/ada.jsonl")
    both += ("--auditor", "examples/two-annotators/bo.jsonl")
    scored = gatemark("score", "agreement", *both, "--json")
    assert scored.returncode == 0, scored.stderr
    assert json.loads(scored.stdout)["verdict"] == "pass"
    shown = gatemark("report", json.loads(ran.stdout)["id"], "-o", "report.md")
    assert shown.returncode == 0, shown.stderr
    assert "shadow" in (work / "report.md").read_text(encoding="utf-8")
