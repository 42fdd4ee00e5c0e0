"""The reference page of reasons, made from where each of them is declared."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import gatemark
from gatemark.core.reason import ReasonKind

_ROOT: Final = Path(gatemark.__file__).parent
_OPENING: Final = """\
# Reasons

A number that is missing has a reason, and so has every finding of a verdict. A result stores a
reason as a code with its values; the sentence is for people. In scripts, use the code and the
values: a later version may word a sentence better, but it keeps the code. `gatemark ledger verify
--rescore` compares codes and values and ignores sentences.

Braces stand for values, `{because}` for another reason. Where a case needs better words than the
sentence here, a result has those.

| Code | Sentence |
|---|---|
"""


class DeclaredReason(NamedTuple):
    """A kind of reason, and the module that declares it."""

    kind: ReasonKind
    module: str


def find_declared_reasons() -> Iterator[DeclaredReason]:
    """Yield every kind of reason that a module of the package declares."""
    for path in sorted(_ROOT.rglob("*.py")):
        if "ReasonKind(" not in path.read_text():
            continue
        place = path.relative_to(_ROOT.parent).with_suffix("")
        module = importlib.import_module(".".join(place.parts).removesuffix(".__init__"))
        source = path.read_text()
        for name, value in vars(module).items():
            # Other modules import kinds; only the one that declares a kind assigns it.
            if isinstance(value, ReasonKind) and f"\n{name}: Final = ReasonKind(" in source:
                yield DeclaredReason(value, module.__name__)


def reasons_page() -> str:
    """Return every code with its sentence, in the order of the codes."""
    found = sorted((one.kind for one in find_declared_reasons()), key=lambda kind: kind.code)
    return _OPENING + "".join(f"| `{kind.code}` | {kind.sentence} |\n" for kind in found)
