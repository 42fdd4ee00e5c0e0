"""Every clause on the page of advisory clauses names a test that exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "advisory-clauses.md"
TESTS = ROOT / "tests" / "plugins" / "advisory"
ROW = re.compile(r"^\| .+ \| `([\w/.]+)::(\w+)` \|$")


@cache
def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_clause_names_a_test_that_exists() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| Clause")]
    assert len(rows) > 60
    for line in rows:
        named = ROW.match(line)
        assert named, line
        assert named[2] in names_in(TESTS / named[1]), line
