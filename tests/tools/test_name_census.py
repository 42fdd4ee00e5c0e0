from __future__ import annotations

from pathlib import Path

import pytest

from name_census import Census, main, read_words

ONE = """\
from typing import Any


class Options:
    house: int = 0


def read(house: Any, **flags: Any) -> "Any":
    return house


def _private() -> None: ...
"""
TWO = """\
class Options:
    pass


class Reader:
    def read(self) -> None: ...


def _private() -> None: ...
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name, text in {
        "core/one.py": ONE,
        "core/canary_rule.py": "import numpy\nimport gatemark.gate.two\n\nDRIFT_MAX = 1\n",
        "gate/two.py": TWO,
        "gate/told.py": "",
    }.items():
        path = tmp_path / "gatemark" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_only_public_names_at_the_top_of_modules_are_duplicates(source: Path) -> None:
    census = Census(source)
    assert census.places("duplicates") == ["Options: gatemark.core.one, gatemark.gate.two"]
    assert census.figure("classes") == 1


def test_any_is_counted_where_it_is_used_and_not_where_it_is_imported(source: Path) -> None:
    census = Census(source)
    assert census.places("any") == ["gatemark.core.one:8", "gatemark.core.one:8"]
    assert census.places("flags") == ["gatemark.core.one:8: read"]


def test_old_words_are_found_as_fields_parameters_and_modules(source: Path) -> None:
    found = {line.split(" ")[0]: line for line in Census(source).places("words")}
    assert found["house"] == "house -> workspace: 3 in gatemark.core.one"
    assert found["told"] == "told -> format_events: 1 in gatemark.gate.told"
    assert "Look" not in found


def test_core_may_not_name_features_nor_import_much(source: Path) -> None:
    census = Census(source)
    assert census.places("core-words") == [
        "gatemark.core.canary_rule:1: canary_rule",
        "gatemark.core.canary_rule:4: DRIFT_MAX",
    ]
    assert census.places("core-imports") == [
        "gatemark.core.canary_rule: numpy",
        "gatemark.core.canary_rule: gatemark.gate.two",
    ]
    assert census.figure("core-lines") == ONE.count("\n") + 4


def test_a_folder_of_more_than_25_modules_is_too_large(source: Path) -> None:
    for number in range(24):
        (source / "gatemark" / "gate" / f"m{number}.py").touch()
    assert Census(source).places("folders") == ["gatemark/gate: 26 modules"]


def test_the_check_fails_above_a_target(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], source) == 0
    assert main(["--check"], source) == 1
    assert "flags                1   at most 0" in capsys.readouterr().out


def test_every_old_word_has_a_new_one_and_a_known_place() -> None:
    words = read_words()
    assert len({word.word for word in words}) == len(words)
    assert {word.where for word in words} == {"anywhere", "definition", "module", "once"}
    assert all(word.new for word in words)


def test_a_module_may_not_be_longer_than_its_subject(source: Path) -> None:
    assert Census(source).places("modules") == []
    (source / "gatemark/gate/two.py").write_text(TWO + "#\n" * 600, encoding="utf-8")
    lines = TWO.count("\n") + 600
    assert Census(source).places("modules") == [f"gatemark.gate.two: {lines} lines"]
