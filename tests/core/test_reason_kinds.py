"""Laws over every kind of reason that the package declares."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from string import Formatter

import msgspec
import pytest
from tests.reasons import state_reason

import gatemark
from docs_pages.reasons import find_declared_reasons
from gatemark.core.reason import Reason, ReasonKind, ReasonValue

DECLARED = list(find_declared_reasons())
KINDS = [one.kind for one in DECLARED]
ROOT = Path(gatemark.__file__).parent

each_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.code for kind in KINDS])


def places(kind: ReasonKind) -> dict[str, ReasonValue]:
    """A value for each place: a number where the sentence formats one."""
    found = [(name, spec) for _, name, spec, _ in Formatter().parse(kind.sentence) if name]
    return {name: 0.25 if spec else f"a {name}" for name, spec in found if name != "because"}


def example(kind: ReasonKind, values: dict[str, ReasonValue] | None = None) -> Reason:
    because = state_reason("so it is") if "{because}" in kind.sentence else None
    return kind(because=because, **{**places(kind), **(values or {})})


def test_no_two_kinds_share_a_code() -> None:
    codes = Counter(kind.code for kind in KINDS)
    assert [code for code, count in codes.items() if count > 1] == []


def calls_of(name: str) -> list[tuple[Path, ast.Call]]:
    return [
        (path.relative_to(ROOT), node)
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    ]


def test_every_kind_is_declared_where_the_laws_find_it() -> None:
    """A kind that is made inside a function could share a code unseen."""
    written = Counter(
        f"gatemark.{'.'.join(p.with_suffix('').parts)}" for p, _ in calls_of("ReasonKind")
    )
    assert written == Counter(one.module for one in DECLARED)


def test_every_reason_of_the_package_comes_from_a_kind() -> None:
    assert [str(path) for path, _ in calls_of("Reason")] == ["core/reason.py"]
    assert [str(path) for path, _ in calls_of("state_reason")] == []


@each_kind
def test_an_edited_sentence_is_the_same_reason(kind: ReasonKind) -> None:
    edited = msgspec.structs.replace(kind, sentence=f"In other words: {kind.sentence}")
    assert str(example(edited)) != str(example(kind))
    assert example(edited).is_same(example(kind))
    stored = msgspec.json.decode(msgspec.json.encode(example(kind)), type=Reason)
    assert stored.is_same(example(edited))


@each_kind
def test_another_value_is_another_reason(kind: ReasonKind) -> None:
    for name, value in places(kind).items():
        other = 0.75 if isinstance(value, float) else f"not {value}"
        assert not example(kind).is_same(example(kind, {name: other})), name
    renamed = msgspec.structs.replace(kind, code=f"{kind.code}_too")
    assert not example(kind).is_same(example(renamed))


@each_kind
def test_a_code_is_a_name_and_a_sentence_is_words(kind: ReasonKind) -> None:
    assert kind.code.isidentifier()
    assert kind.code == kind.code.lower()
    assert "|" not in kind.sentence
    assert "\n" not in kind.sentence


def test_words_that_fit_the_case_still_need_every_value() -> None:
    few = ReasonKind("few", "{subject} rests on {n} items")
    assert few.word("only a is known", subject="a", n=3).is_same(few(subject="a", n=3))
    with pytest.raises(KeyError):
        few.word("only a is known", subject="a")
