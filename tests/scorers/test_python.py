from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gatemark.core.errors import BadInputError
from gatemark.scorers.python import SCORER
from gatemark.scorers.scorer import Scorable, Score, ScoreFunction

SOURCE = """
from __future__ import annotations
import re
from dataclasses import dataclass
from gatemark.scorers.scorer import scored, unscored
from gatemark.core.errors import BadInputError

@dataclass
class Half:
    value: float = 0.5

NOT_A_FUNCTION = 3

def echo(item):
    return item.output

def half(item):
    return Half().value

def told(item):
    return {"value": 0.25, "detail": {"why": "because"}}

def silent(item):
    return {"reason": "no opinion"}

def whole(item):
    return scored(1.0, id=item.id)

def broken(item):
    return item.sample["nothing"]

def refusing(item):
    raise BadInputError("the item has no table")

def leaving(item):
    raise SystemExit(0)

def unusual(item):
    return re.compile("(")
"""


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    folder = tmp_path / "pack"
    (folder / "inner").mkdir(parents=True)
    (folder / "checks.py").write_text(SOURCE)
    (folder / "inner" / "deep.py").write_text("def one(item): return 1")
    (folder / "wrong.py").write_text("def f(:")
    (folder / "raises.py").write_text("1 / 0")
    (folder / "leaves.py").write_text("raise SystemExit(0)")
    (folder / "odd.py").write_text("import re; re.compile('(')")
    return folder


def ready(pack: Path, function: str) -> ScoreFunction:
    return SCORER.ready(SCORER.options_from({"function": function, "folder": str(pack)}))


def score(pack: Path, function: str, output: Any = "x") -> Score:
    return ready(pack, function)(Scorable(id="7", input=None, target=None, output=output))


def test_a_function_of_the_pack_scores(pack: Path) -> None:
    assert score(pack, "checks:echo", 0.75) == Score(0.75)
    assert score(pack, "checks:echo", output=True) == Score(1.0)
    assert score(pack, "checks:half") == Score(0.5)
    assert score(pack, "checks:told") == Score(0.25, None, {"why": "because"})
    assert score(pack, "checks:silent") == Score(None, "no opinion")
    assert score(pack, "checks:whole") == Score(1.0, None, {"id": "7"})
    assert score(pack, "inner.deep:one") == Score(1.0)


@pytest.mark.parametrize(
    ("function", "output", "reason"),
    [
        ("checks:echo", 1.5, r"checks:echo must return a score in [0, 1]"),
        ("checks:echo", float("nan"), "checks:echo must return a score in [0, 1]"),
        ("checks:echo", 10**400, "checks:echo must return a score in [0, 1]"),
        ("checks:echo", "1.0", "checks:echo must return a number or a score, got 1.0"),
        ("checks:echo", {"value": 1, "extra": 2}, "checks:echo must return a score in [0, 1]"),
        ("checks:echo", {"value": 1, "reason": "both"}, "checks:echo must return a score"),
        ("checks:echo", {}, "checks:echo must return a score"),
        ("checks:broken", "x", "checks:broken raised KeyError: 'nothing'"),
        ("checks:refusing", "x", "the item has no table"),
        ("checks:leaving", "x", "checks:leaving raised SystemExit: 0"),
        ("checks:unusual", "x", "checks:unusual raised error: missing )"),
    ],
)
def test_a_function_that_gives_no_score_gives_a_reason(
    pack: Path, function: str, output: Any, reason: str
) -> None:
    found = score(pack, function, output)
    assert found.value is None
    assert str(found.reason).startswith(reason)


@pytest.mark.parametrize(
    ("function", "finding"),
    [
        ("nowhere:f", "nowhere:f must name a file in the pack"),
        ("checks:nothing", "must be a function, got None"),
        ("checks:NOT_A_FUNCTION", "must be a function, got 3"),
        ("wrong:f", "cannot be loaded: SyntaxError"),
        ("raises:f", "cannot be loaded: ZeroDivisionError"),
        ("leaves:f", "cannot be loaded: SystemExit: 0"),
        ("odd:f", "cannot be loaded: error: missing"),
    ],
)
def test_what_cannot_be_loaded_is_refused_before_any_item(
    pack: Path, function: str, finding: str
) -> None:
    with pytest.raises(BadInputError, match=finding):
        ready(pack, function)


def test_a_link_out_of_the_pack_is_refused(pack: Path) -> None:
    outside = pack.parent / "outside.py"
    outside.write_text("def f(item): return 1")
    (pack / "link.py").symlink_to(outside)
    with pytest.raises(BadInputError, match="link:f must not lead out of the pack"):
        ready(pack, "link:f")


def test_no_bytecode_is_left_and_none_is_believed(pack: Path) -> None:
    assert score(pack, "inner.deep:one").value == 1.0
    (pack / "inner" / "deep.py").write_text("def one(item): return 0")
    assert score(pack, "inner.deep:one").value == 0.0
    assert not list(pack.rglob("__pycache__"))


def test_identity_is_the_source_and_not_the_folder(pack: Path, tmp_path: Path) -> None:
    def identity(folder: Path) -> dict[str, str]:
        options = SCORER.options_from({"function": "checks:half", "folder": str(folder)})
        return SCORER.identity(options)

    other = tmp_path / "other"
    other.mkdir()
    (other / "checks.py").write_text(SOURCE)
    before = identity(pack)
    assert identity(other) == before
    (other / "checks.py").write_text(SOURCE + "\n")
    assert identity(other) != before
