from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from plan_moves import Layout

FILES = {
    "core/errors.py": "",
    "former/probe.py": "from gatemark.core.errors import A\nfrom gatemark.former.agree import B\n",
    "former/agree.py": "from gatemark.former.small import C\n",
    "former/small.py": "import gatemark.core.errors\n",
    "vigil/stores.py": "from gatemark.former.probe import D\n",
    "former/page.py": "from gatemark.vigil.stores import E\n",
}
ROWS = """\
old,new,note
,gatemark.exams,Exams.
gatemark.former.probe,gatemark.drift.probe,
gatemark.former.agree,gatemark.exams.agreement.journey,
gatemark.former.small,gatemark.exams.agreement.small,
gatemark.vigil.stores,gatemark.drift.stores,
gatemark.former.page,gatemark.web.page,
gatemark.core.errors,gatemark.core.errors,
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    for name, text in FILES.items():
        path = tmp_path / "src" / "gatemark" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "maps").mkdir()
    (tmp_path / "maps" / "01-all.csv").write_text(ROWS, encoding="utf-8")
    for command in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return Layout(tmp_path, tmp_path / "maps")


def test_imports_are_judged_by_final_names(layout: Layout) -> None:
    found = [(one.importer, one.imported, one.names) for one in layout.violations()]
    assert found == [
        ("gatemark.drift.probe", "gatemark.exams.agreement.journey", "B"),
        # The page is above drift, but stores are for their own feature alone.
        ("gatemark.web.page", "gatemark.drift.stores", "E"),
    ]


def test_siblings_that_import_each_other_are_a_cycle(layout: Layout) -> None:
    assert list(layout.cycles()) == []
    (layout.root / "src/gatemark/former/small.py").write_text(
        "from gatemark.former.agree import F\n"
    )
    again = Layout(layout.root, layout.root / "maps")
    assert list(again.cycles()) == [
        ("gatemark.exams.agreement.journey", "gatemark.exams.agreement.small")
    ]


def test_sizes_and_merges_are_those_of_the_target_tree(layout: Layout) -> None:
    assert layout.sizes()["gatemark.exams.agreement"] == (2, 2)
    assert list(layout.merges()) == [
        ("gatemark.drift.probe", 2, "gatemark.drift.stores"),
        ("gatemark.exams.agreement.small", 1, "gatemark.exams.agreement.journey"),
    ]


def test_a_module_without_a_row_is_named(layout: Layout) -> None:
    assert list(layout.uncovered()) == []
    (layout.root / "src/gatemark/former/new.py").touch()
    subprocess.run(["git", "add", "--all"], cwd=layout.root, check=True)
    again = Layout(layout.root, layout.root / "maps")
    assert list(again.uncovered()) == [
        "src/gatemark/former/new.py: gatemark.former.new has no row",
    ]
