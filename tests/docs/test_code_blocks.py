from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from gatemark.testing.folds import check_fold
from gatemark.testing.schemas import check_schema

from .transcript import ROOT, steps_of


@pytest.fixture
def shown_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The module that a how-to page shows, imported from a file of its own."""

    def load(page: str, name: str) -> ModuleType:
        steps = steps_of((ROOT / "docs" / "how-to" / page).read_text(encoding="utf-8"))
        (source,) = (step.text for step in steps if step.file == name)
        path = tmp_path / name
        path.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(f"shown_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        spec.loader.exec_module(module)
        return module

    return load


def test_the_measure_of_the_how_to_keeps_the_promises_of_a_fold(shown_module) -> None:
    check_fold(shown_module("add-a-measure.md", "refusal.py").MEASURE)


def test_the_schema_of_the_how_to_agrees_with_its_examples(shown_module) -> None:
    check_schema(shown_module("add-a-schema.md", "rating.py").SCHEMA)
