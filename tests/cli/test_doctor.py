from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Ran

from gatemark.cli import doctor


def test_a_working_installation_exits_with_zero(
    gatemark: Callable[..., Ran], tmp_path: Path
) -> None:
    ran = gatemark("doctor", "--store", tmp_path / "store", "--json")
    parts = {part["name"]: part for part in ran.json["parts"]}
    assert ran.code == 0
    assert parts["store"]["state"] == "ok"
    assert parts["report"]["state"] == "ok"
    assert not (tmp_path / "store").exists()


def test_a_folder_with_keys_and_no_store_is_no_problem(
    gatemark: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "session.key").touch()
    ran = gatemark("doctor", "--store", tmp_path)
    assert ran.code == 0
    assert "none yet" in ran.out


def test_a_missing_extra_says_how_to_get_it(
    gatemark: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "_find_version", lambda _: None)
    ran = gatemark("doctor", "--store", tmp_path / "store")
    assert ran.code == 0
    assert "pip install 'gatemark[postgres]'" in ran.out


def test_every_extra_of_the_package_for_users_is_explained() -> None:
    import tomllib

    root = Path(__file__).resolve().parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    declared = set(project["optional-dependencies"]) - {"test", "dev", "bench"}
    assert set(doctor.EXTRAS) == declared


def test_a_store_that_cannot_be_read_is_a_problem(
    gatemark: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "gatemark.sqlite3").write_bytes(b"no database" * 100)
    ran = gatemark("doctor", "--store", tmp_path)
    assert ran.code == 2
    assert "problem  store" in ran.out
