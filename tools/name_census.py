"""Count names: defined twice, left over from the old vocabulary, or typed ``Any``.

    python tools/name_census.py              the figures, with their targets
    python tools/name_census.py --list WHAT  every place behind one figure
    python tools/name_census.py --check      fail when a figure is above its target
    python tools/name_census.py --check any classes

Figures: ``duplicates`` (public classes and functions defined at the top of more than one module),
``classes`` (those among them that are classes), ``words`` (names of ``tools/old_words.csv`` that
are still there), ``any`` (uses of ``typing.Any``), ``flags`` (functions with ``**flags: Any``),
``folders`` (with more than 25 modules beside ``__init__.py``), ``modules`` (with more than 600
lines), ``core-words`` (words of features in the names of ``core``), ``core-imports`` (what ``core``
imports beside the standard library, msgspec and rfc8785), ``core-lines`` and ``lines``.
"""

from __future__ import annotations

import argparse
import ast
import csv
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
WORDS: Final = Path(__file__).with_name("old_words.csv")
MOST_MODULES: Final = 25
MOST_LINES: Final = 600
CORE_MAY_IMPORT: Final = frozenset({"gatemark", "msgspec", "rfc8785"})
FEATURE_WORDS: Final = frozenset(
    {
        "account",
        "advisory",
        "agreement",
        "attribution",
        "calibration",
        "canary",
        "drift",
        "lifecycle",
        "overhead",
        "preference",
        "review",
        "runlog",
        "sample",
        "schedule",
        "scorer",
        "target",
    }
)
TARGETS: Final[Mapping[str, int | None]] = {
    # A name may be in several modules when it is the same kind of thing in each of them.
    "duplicates": None,
    "classes": 0,
    "words": 0,
    "any": 495,
    "flags": 0,
    "folders": 0,
    "modules": 0,
    "core-words": 0,
    "core-imports": 0,
    "core-lines": 2_500,
    "lines": 85_000,
}


class Word(NamedTuple):
    """An old name, what replaces it, and where it must not be: see ``_is_old``."""

    word: str
    new: str
    where: str


class Definition(NamedTuple):
    """A name that a module gives to something: a class, function, field or constant."""

    name: str
    line: int


@dataclass(frozen=True, eq=False)
class Module:
    """One parsed module."""

    name: str
    path: Path
    text: str

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node, walked once: all figures come from here."""
        return list(ast.walk(self.tree))

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed text."""
        return ast.parse(self.text)

    @cached_property
    def identifiers(self) -> Counter[str]:
        """How often each identifier is used, imports and parameters included."""
        found: Counter[str] = Counter()
        for node in self.nodes:
            for field in ("id", "attr", "arg", "name", "asname"):
                name = getattr(node, field, None)
                if isinstance(name, str):
                    found[name] += 1
        return found

    @cached_property
    def definitions(self) -> list[Definition]:
        """Classes, functions and methods, fields of classes, and constants of the module."""
        return list(_definitions(self.nodes))

    @property
    def lines(self) -> int:
        """How many lines it has."""
        return self.text.count("\n")


class Census:
    """All figures of one source tree."""

    def __init__(self, source: Path) -> None:
        self.source = source

    @cached_property
    def modules(self) -> list[Module]:
        """Every module below the source folder."""
        found = []
        for path in sorted(self.source.rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            parts = path.relative_to(self.source).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found.append(Module(name, path, text))
        return found

    @cached_property
    def core(self) -> list[Module]:
        """The modules of ``core``."""
        return [module for module in self.modules if ".core" in f"{module.name}."[:14]]

    def places(self, what: str) -> list[str]:
        """Every place behind one figure, one line each; a figure is how many there are."""
        return list(FIGURES[what](self))

    def figure(self, what: str) -> int:
        """One figure."""
        if what == "lines":
            return sum(module.lines for module in self.modules)
        if what == "core-lines":
            return sum(module.lines for module in self.core)
        return len(self.places(what))

    # One method per figure

    def duplicates(self, *, only_classes: bool = False) -> Iterator[str]:
        """Public names that more than one module defines at its top level."""
        homes: dict[str, set[str]] = defaultdict(set)
        kinds = (ast.ClassDef,) if only_classes else _DEFINED
        for module in self.modules:
            for node in module.tree.body:
                if isinstance(node, kinds) and not node.name.startswith("_"):
                    homes[node.name].add(module.name)
        for name, where in sorted(homes.items()):
            if len(where) > 1:
                yield f"{name}: {', '.join(sorted(where))}"

    def classes(self) -> Iterator[str]:
        """Public class names that more than one module defines."""
        return self.duplicates(only_classes=True)

    def words(self) -> Iterator[str]:
        """Names of the old vocabulary that are still used."""
        for word in read_words():
            found = [place for module in self.modules for place in _is_old(word, module)]
            if word.where == "once":
                found = found if len(found) > 1 else []
            if found:
                yield f"{word.word} -> {word.new}: {len(found)} in {', '.join(_first(found))}"

    def any_uses(self) -> Iterator[str]:
        """Every use of ``Any``, imports not counted."""
        for module in self.modules:
            for node in module.nodes:
                if isinstance(node, ast.Name) and node.id == "Any":
                    yield f"{module.name}:{node.lineno}"

    def flags(self) -> Iterator[str]:
        """Functions that take ``**flags: Any``."""
        for module in self.modules:
            for node in module.nodes:
                if (
                    isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                    and (rest := node.args.kwarg) is not None
                    and rest.arg == "flags"
                    and isinstance(rest.annotation, ast.Name)
                    and rest.annotation.id == "Any"
                ):
                    yield f"{module.name}:{node.lineno}: {node.name}"

    def folders(self) -> Iterator[str]:
        """Folders with too many modules at one level."""
        count: dict[Path, int] = defaultdict(int)
        for module in self.modules:
            if module.path.stem != "__init__":
                count[module.path.parent] += 1
        for folder, modules in sorted(count.items()):
            if modules > MOST_MODULES:
                yield f"{folder.relative_to(self.source)}: {modules} modules"

    def long_modules(self) -> Iterator[str]:
        """Modules with too many lines."""
        for module in self.modules:
            if module.lines > MOST_LINES:
                yield f"{module.name}: {module.lines} lines"

    def core_words(self) -> Iterator[str]:
        """Names in ``core`` that hold the word of a feature."""
        for module in self.core:
            own = Definition(module.name.rpartition(".")[2], 1)
            for definition in (own, *module.definitions):
                parts = set(_parts(definition.name))
                if parts & FEATURE_WORDS:
                    yield f"{module.name}:{definition.line}: {definition.name}"

    def core_imports(self) -> Iterator[str]:
        """What ``core`` imports and should not."""
        for module in self.core:
            for node in module.nodes:
                names = []
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and node.module:
                    names = [node.module]
                for name in names:
                    top = name.split(".")[0]
                    # The package itself holds nothing but the version and lazy names.
                    own = name.startswith("gatemark.") and not name.startswith("gatemark.core")
                    if own or top not in CORE_MAY_IMPORT | sys.stdlib_module_names:
                        yield f"{module.name}: {name}"

    def all_lines(self) -> Iterator[str]:
        """The lines of every module, the longest first."""
        for module in sorted(self.modules, key=lambda module: -module.lines):
            yield f"{module.lines:5} {module.name}"

    def core_lines(self) -> Iterator[str]:
        """The lines of every module of ``core``, the longest first."""
        for module in sorted(self.core, key=lambda module: -module.lines):
            yield f"{module.lines:5} {module.name}"


FIGURES: Final[Mapping[str, Callable[[Census], Iterator[str]]]] = {
    "duplicates": Census.duplicates,
    "classes": Census.classes,
    "words": Census.words,
    "any": Census.any_uses,
    "flags": Census.flags,
    "folders": Census.folders,
    "modules": Census.long_modules,
    "core-words": Census.core_words,
    "core-imports": Census.core_imports,
    "core-lines": Census.core_lines,
    "lines": Census.all_lines,
}

_DEFINED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def read_words() -> list[Word]:
    """The old vocabulary."""
    with WORDS.open(encoding="utf-8", newline="") as stream:
        return [Word(row["word"], row["new"], row["where"]) for row in csv.DictReader(stream)]


def _definitions(nodes: Sequence[ast.AST]) -> Iterator[Definition]:
    for node in nodes:
        if isinstance(node, _DEFINED):
            yield Definition(node.name, node.lineno)
        if isinstance(node, ast.ClassDef | ast.Module):
            for part in node.body:
                targets = part.targets if isinstance(part, ast.Assign) else []
                targets = [part.target] if isinstance(part, ast.AnnAssign) else targets
                for target in targets:
                    if isinstance(target, ast.Name):
                        yield Definition(target.id, part.lineno)


def _is_old(word: Word, module: Module) -> Iterator[str]:
    """Where a module uses an old name.

    ``anywhere``: as any identifier; ``definition``: as the name of a class, function, field,
    constant or module; ``once``: the same, but one module may have it; ``module``: as the name of a
    module or package. A dotted word means that name in that module or below it.
    """
    scope, _, name = word.word.rpartition(".")
    if scope and not f"{module.name}.".startswith(f"{scope}."):
        return
    if name in module.name.split(".")[1:]:
        yield module.name
    if word.where == "anywhere":
        yield from [module.name] * module.identifiers[name]
    elif word.where in ("definition", "once"):
        same = [found for found in module.definitions if found.name == name]
        yield from [module.name] * len(same)


def _parts(name: str) -> Iterator[str]:
    """The words of a name in snake case, capitals or camel case."""
    word = ""
    for before, sign in zip(" " + name, name, strict=False):
        if sign == "_" or (sign.isupper() and before.islower()):
            yield word.lower()
            word = ""
        word += "" if sign == "_" else sign
    yield word.lower()


def _first(places: Sequence[str]) -> list[str]:
    different = sorted(set(places))
    more = [f"and {len(different) - 3} more"] if len(different) > 3 else []
    return [*different[:3], *more]


def main(arguments: Sequence[str] | None = None, source: Path = ROOT / "src") -> int:
    """Print figures or places; with ``--check`` 1 when a figure is above its target."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--list", choices=sorted(FIGURES), help="print the places of one figure")
    parser.add_argument(
        "--check",
        nargs="*",
        choices=sorted(TARGETS),
        metavar="FIGURE",
        help="fail when one of these targets is missed, or any",
    )
    options = parser.parse_args(arguments)
    census = Census(source)
    if options.list is not None:
        print("\n".join(census.places(options.list)))
        return 0
    missed = 0
    for what, target in TARGETS.items():
        figure = census.figure(what)
        asked = not options.check or what in options.check
        missed += asked and target is not None and figure > target
        print(f"{what:<14}{figure:>8,}" + ("" if target is None else f"   at most {target:,}"))
    return 1 if options.check is not None and missed else 0


if __name__ == "__main__":
    sys.exit(main())
