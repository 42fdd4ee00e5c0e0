from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from tests.targets.rigs import Answer, serving

import install_sizes
import make_sbom

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACK = """\
gatemark: 1
name: base
version: 1
asset: {{kind: prompt, name: base}}
score_min: 0.5
regression_max: 0.5
suites: [{{id: golden, kind: golden, weight: 1, dataset: data.jsonl, scorer: exact}}]
targets:
  baseline: none
  candidate: {{openai: {{base_url: "{url}/v1", model: small, prompt: "{{{{input}}}}"}}}}
"""
BLOCK = """\
import sys
from importlib.machinery import PathFinder
class Base(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        absent = name.partition(".")[0] in {absent!r}
        return None if absent else super().find_spec(name, path, target)
sys.meta_path[:] = [Base if finder is PathFinder else finder for finder in sys.meta_path]
from gatemark.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@cache
def base_only() -> str:
    """A program that runs a command as if only the base install were there."""
    base = install_sizes.closure(PROJECT["dependencies"]) | {"gatemark"}
    absent = {
        module
        for module, owners in metadata.packages_distributions().items()
        if not {install_sizes.normalised(owner) for owner in owners} & base
    }
    assert {"jinja2", "fastapi", "pyarrow", "altair"} <= absent
    assert not {"httpx2", "numpy", "scipy", "sqlalchemy"} & absent
    return BLOCK.format(absent=absent)


def run_in_base(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", base_only(), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_bill_of_materials_is_the_lock_file() -> None:
    assert make_sbom.main(["--check"]) == 0
    document = json.loads(make_sbom.SBOM.read_bytes())
    lines = make_sbom.LOCK.read_text(encoding="utf-8").split()
    assert len(document["components"]) == len(lines)
    assert len({one["purl"] for one in document["components"]}) == len(lines)
    assert make_sbom.bill("a==1\n") != make_sbom.bill("a==2\n")
    with pytest.raises(SystemExit, match=r"requirements\.lock:1: expected name==version"):
        make_sbom.bill("a>=1\n")


def test_the_page_has_a_size_for_the_base_and_every_extra() -> None:
    page = install_sizes.PAGE.read_text(encoding="utf-8")
    table = page.partition(install_sizes.START)[2].partition(install_sizes.END)[0]
    extras = set(PROJECT["optional-dependencies"]) - install_sizes.INNER
    for name in ("`gatemark`", *(f"`[{extra}]`" for extra in extras)):
        assert f"| {name} | " in table, name
    assert install_sizes.size_of("click").total > 100_000


@pytest.mark.slow
def test_the_base_install_gates_logs_and_a_model_over_http(tmp_path: Path) -> None:
    logs = [str(ROOT / "examples" / "ferry" / name) for name in ("base.json", "cand.json")]
    compared = run_in_base(tmp_path, "compare", *logs)
    assert compared.returncode == 1, compared.stderr
    choice = {"index": 0, "message": {"role": "assistant", "content": "yes"}}
    rows = [{"id": f"q{n}", "input": f"Is {n} even?", "target": "yes"} for n in range(4)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with serving(lambda _: Answer({"model": "small", "choices": [choice]})) as server:
        (tmp_path / "pack.yaml").write_text(PACK.format(url=server.url))
        ran = run_in_base(tmp_path, "run", "pack.yaml", "--json")
    assert len(server.requests) == 4, ran.stderr
    result = json.loads(ran.stdout)
    written = run_in_base(tmp_path, "report", result["id"], "-o", "r.md", "-o", "r.junit.xml")
    assert written.returncode == 0, written.stderr
    for words in (("report", result["id"], "-o", "r.html"), ("view", result["id"])):
        refused = run_in_base(tmp_path, *words)
        assert refused.returncode == 2
        assert "pip install 'gatemark[report]' (in a checkout: pip install '.[report]')" in (
            refused.stderr
        )


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_every_supported_python_compiles_the_package(version: str, tmp_path: Path) -> None:
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    python = str(found[-1]) if found else shutil.which(f"python{version}")
    if python is None:
        pytest.skip(f"no Python {version} on this machine")
    copy = tmp_path / "src"
    shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
    command = [python, "-W", "error", "-m", "compileall", "-q", str(copy)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
