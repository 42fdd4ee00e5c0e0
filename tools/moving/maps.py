"""Move maps: CSV files that say where every module, symbol and data file goes.

A map has the columns ``old``, ``new`` and ``note``. What a row means is told by how it is written:

- ``shop.flow.score,shop.exams.price.journey``: move a module.
- ``shop.cli.drift,shop.cli.drift.__init__``: make a module the package's own module.
- ``shop.watch,shop.drift``, where the old one is a package: move it with everything in it that has
  no row of its own.
- ``shop.watch,shop.drift.__init__``, where the old one is a package: move its ``__init__.py``.
- ``shop.make_data,tools/make_data.py``: move a module to the folder of scripts, in which modules
  are on the top level.
- ``shop.flow,``: delete a module that holds nothing but a docstring.
- ``shop.house:House,Workspace``: rename a symbol.
- ``shop.core.exam:Row,shop.packs.rows:Row``: let imports follow a symbol that was moved by hand.
- ``src/shop/data/,src/shop/exams/data/``: move a data file or folder.
- ``,shop.exams,Words.``: make a package with a docstring.

Rows whose ``old`` and ``new`` agree say that a module stays; they count for coverage.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

INIT = "__init__"


class MapError(Exception):
    """A map that cannot be followed, with the row that is wrong."""


@dataclass(frozen=True)
class Roots:
    """The folders that hold packages by the name of each package, and the folder of scripts.

    A script in ``tools`` imports its neighbours without a prefix, so that each module there is on
    the top level.
    """

    repository: Path
    packages: Mapping[str, str] = field(
        default_factory=lambda: {"gatemark": "src", "tests": "", "bench": ""}
    )
    scripts: str = "tools"

    def path_of(self, module: str, *, is_package: bool = False) -> Path:
        """The file of a module, relative to the repository."""
        top, *rest = module.split(".")
        base = Path(self.packages.get(top, self.scripts), top, *rest)
        return base / f"{INIT}.py" if is_package else base.with_name(f"{base.name}.py")

    def module_of(self, path: Path) -> str | None:
        """The module that a file holds, or None when it lies outside all packages."""
        if path.suffix != ".py":
            return None
        for top, folder in (*self.packages.items(), ("", self.scripts)):
            parts = path.relative_to(folder).parts if path.is_relative_to(folder) else ()
            if parts and parts[0] == (top or parts[0]):
                names = [*parts[:-1], path.stem]
                return ".".join(names[:-1] if names[-1] == INIT else names)
        return None

    def is_script(self, path: Path | None) -> bool:
        """Whether a file lies in the folder of scripts."""
        return path is not None and path.is_relative_to(self.scripts)

    def modules(self, files: Iterable[Path]) -> dict[str, Path]:
        """Every module among some files."""
        return {module: path for path in files if (module := self.module_of(path)) is not None}


@dataclass(frozen=True)
class Move:
    """One module that moves, or is deleted when ``new`` is empty."""

    old: str
    new: str
    old_path: Path
    new_path: Path | None


@dataclass(frozen=True)
class SymbolMove:
    """A module-level name that gets another name, or now lives in another module."""

    module: str
    name: str
    new_module: str
    new_name: str

    @property
    def is_rename(self) -> bool:
        """Whether the definition stays in its module."""
        return self.module == self.new_module


@dataclass
class MoveMap:
    """All rows of one or more maps, resolved against the tree they are applied to."""

    moves: list[Move] = field(default_factory=list)
    symbols: list[SymbolMove] = field(default_factory=list)
    data: list[tuple[Path, Path]] = field(default_factory=list)
    packages: dict[str, str] = field(default_factory=dict)
    staying: set[str] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)

    def new_name(self, module: str) -> str:
        """What a module is called after the moves; deleted ones keep their name."""
        return self.names.get(module, "") or module

    def is_moved(self, module: str) -> bool:
        """Whether a module gets another dotted name."""
        return bool(self.names.get(module)) and self.names[module] != module


def read_maps(paths: Iterable[Path], roots: Roots, files: Iterable[Path]) -> MoveMap:
    """Read maps and resolve every row against the files that are there."""
    found = MoveMap()
    modules = roots.modules(files)
    rows = [row for path in paths for row in _rows(path)]
    named = {old for old, _, _, _ in rows}
    for old, new, note, place in rows:
        try:
            _take(found, (old, new, note), modules, roots, named)
        except MapError as error:
            raise MapError(f"{place}: {error}") from None
    _refuse_collisions(found, modules)
    # Symbol rows may name a module by its old or its new name.
    found.symbols = [
        SymbolMove(found.new_name(s.module), s.name, found.new_name(s.new_module), s.new_name)
        for s in found.symbols
    ]
    return found


def _rows(path: Path) -> Iterator[tuple[str, str, str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        if reader.fieldnames is None or not {"old", "new"} <= set(reader.fieldnames):
            raise MapError(f"{path}: expected the columns old, new and note")
        for row in reader:
            old, new = (row["old"] or "").strip(), (row["new"] or "").strip()
            yield old, new, (row.get("note") or "").strip(), f"{path.name}:{reader.line_num}"


def _take(
    found: MoveMap,
    row: tuple[str, str, str],
    modules: Mapping[str, Path],
    roots: Roots,
    named: set[str],
) -> None:
    old, new, note = row
    if not old:
        found.packages[roots.module_of(Path(new)) or new] = note
    elif ":" in old:
        found.symbols.append(_symbol(old, new))
    elif "/" in old:
        found.data.append((Path(old.rstrip("/")), Path(new.rstrip("/"))))
    elif old == new:
        found.staying.add(old)
    else:
        for move in _module_moves(old, new, modules, roots, named):
            if move.old in found.names:
                raise MapError(f"{move.old} is named twice")
            found.names[move.old] = move.new
            found.moves.append(move)


def _symbol(old: str, new: str) -> SymbolMove:
    module, _, name = old.partition(":")
    target, colon, new_name = new.rpartition(":")
    if not (name.isidentifier() and new_name.isidentifier()):
        raise MapError(f"{old}: expected module:Name and a new name, got {new!r}")
    return SymbolMove(module, name, target if colon else module, new_name)


def _module_moves(
    old: str, new: str, modules: Mapping[str, Path], roots: Roots, named: set[str]
) -> Iterator[Move]:
    if new.startswith(f"{roots.scripts}/"):
        new = (roots.module_of(Path(new)) or "") + (
            f".{INIT}" if new.endswith(f"{INIT}.py") else ""
        )
    elif new and new.split(".")[0] not in roots.packages:
        raise MapError(f"{new}: unknown top-level package {new.split('.')[0]!r}")
    is_init = new.endswith(f".{INIT}")
    name = new.removesuffix(f".{INIT}")
    here = modules.get(old)
    was_package = here is not None and here.stem == INIT
    if not new:
        if here is not None:
            yield Move(old, "", here, None)
        else:
            yield Move(old, "", roots.path_of(old), None)
        return
    if was_package and not is_init:
        # The whole package, except for what has a row of its own.
        for module, path in sorted(modules.items()):
            inside = module == old or module.startswith(f"{old}.")
            if inside and (module == old or module not in named):
                moved = name + module[len(old) :]
                is_package = path.stem == INIT
                yield Move(module, moved, path, roots.path_of(moved, is_package=is_package))
        return
    target = roots.path_of(name, is_package=is_init)
    if here is None or here == target:
        # Done by an earlier run; names that are left in text are still rewritten.
        if modules.get(name) is None:
            raise MapError(f"{old}: there is no such module, and no {name} either")
        yield Move(old, name, here or roots.path_of(old), target)
        return
    yield Move(old, name, here, target)


def _refuse_collisions(found: MoveMap, modules: Mapping[str, Path]) -> None:
    targets: dict[str, str] = {}
    for move in found.moves:
        if not move.new:
            continue
        if move.new in targets:
            raise MapError(f"{move.old} and {targets[move.new]} would both become {move.new}")
        targets[move.new] = move.old
    for move in found.moves:
        if move.new and move.new != move.old and move.new in found.names:
            # A second run could not tell the old owner of the name from the new one.
            raise MapError(f"{move.new} is both an old and a new name; use two maps")
        there = modules.get(move.new)
        if there is not None and move.old in modules and there != modules[move.old]:
            raise MapError(f"{move.old}: {move.new} exists already")
