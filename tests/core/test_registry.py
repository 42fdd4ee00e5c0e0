from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gatemark.core.errors import UsageError
from gatemark.core.registry import Registry
from gatemark.evidence.measures import measures


def registry_over(folder: Path, monkeypatch: pytest.MonkeyPatch, **modules: str) -> Registry[str]:
    name = f"plugins_{abs(hash(folder))}"
    package = folder / name
    package.mkdir()
    (package / "__init__.py").write_text("")
    for module, source in modules.items():
        (package / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return Registry(
        kind="thing",
        places=(f"{name}.*",),
        attribute="THING",
        plugin_type=str,
        name_of=lambda text: text,
    )


def test_plugins_are_found_by_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    things = registry_over(tmp_path, monkeypatch, b="THING = 'beta'", a="THING = 'alpha'")
    assert things.names() == ("alpha", "beta")
    assert list(things) == ["alpha", "beta"]
    assert "alpha" in things
    assert things.get("beta") == "beta"


def test_an_unknown_name_gets_a_suggestion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    things = registry_over(tmp_path, monkeypatch, a="THING = 'alpha'")
    with pytest.raises(UsageError, match="did you mean 'alpha'"):
        things.get("alpah")


def test_a_broken_module_harms_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    things = registry_over(
        tmp_path, monkeypatch, a="THING = 'alpha'", b="import no_such_module", c="THING = 7"
    )
    assert things.names() == ("alpha",)
    assert len(things.broken) == 2
    with pytest.raises(UsageError, match="no_such_module"):
        things.get("beta")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("THING = (", "SyntaxError: '(' was never closed"),
        ("raise ValueError('boom')", "ValueError: boom"),
        ("import os; os.nothing", "AttributeError"),
        ("1 / 0", "ZeroDivisionError"),
        ("open('/no/such/file')", "FileNotFoundError"),
        ("{}['gone']", "KeyError: 'gone'"),
    ],
)
def test_a_module_that_fails_while_it_is_imported_harms_only_itself(
    source: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    things = registry_over(tmp_path, monkeypatch, a="THING = 'alpha'", b=source)
    assert things.names() == ("alpha",)
    (told,) = things.broken.values()
    assert why in told


def test_two_plugins_of_one_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    things = registry_over(tmp_path, monkeypatch, a="THING = 'alpha'", b="THING = 'alpha'")
    with pytest.raises(UsageError, match="two things are called 'alpha'"):
        things.names()


def test_a_module_can_hold_several_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = registry_over(tmp_path, monkeypatch, many="THING = ('one', 'two')")
    assert registry.names() == ("one", "two")
    other = tmp_path / "other"
    other.mkdir()
    mixed = registry_over(other, monkeypatch, mixed="THING = ('one', 2)")
    assert mixed.names() == ()
    assert "it has no THING" in next(iter(mixed.broken.values()))


def test_a_plugin_is_found_near_its_exam_without_loading_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry = measures.__wrapped__()
    monkeypatch.setattr(registry, "_load_all", lambda: pytest.fail("loads all"))
    found = registry.find("abstention", near="agreement")
    assert found is not None
    assert found.name == "abstention"


def test_a_module_that_is_no_package_is_not_loaded_to_look_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "with_a_lone_module"
    (package / "one").mkdir(parents=True)
    for name in ("__init__.py", "one/__init__.py"):
        (package / name).write_text("")
    (package / "one" / "thing.py").write_text("THING = 'alpha'")
    (package / "lone.py").write_text("raise RuntimeError('nobody asked for me')")
    monkeypatch.syspath_prepend(str(tmp_path))
    things: Registry[str] = Registry(
        kind="thing",
        places=("with_a_lone_module.*.thing",),
        attribute="THING",
        plugin_type=str,
        name_of=lambda text: text,
    )
    assert things.names() == ("alpha",)
    assert "with_a_lone_module.lone" not in sys.modules
