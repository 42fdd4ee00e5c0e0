"""A tree and a map: what is left to do, doing it, and looking for what was forgotten."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from moving.maps import INIT, MapError, Move, MoveMap, Roots, read_maps
from moving.rewrite import FileRewriter, rewrite_markdown
from moving.scopes import Names, Source, defined_names
from moving.text import Notice, TextRewriter
from moving.world import World

TEXT_SUFFIXES = frozenset(
    {"", ".cfg", ".css", ".html", ".ini", ".md", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml"}
)
# History keeps its words, and maps must go on naming what they move.
LEFT_ALONE = ("CHANGELOG.md", "LICENSE", "tools/moves/", "locks/")
PACKAGES_IN = ("src", "tools")


@dataclass
class Change:
    """What becomes of one file: its place and its text, and what to look at by hand."""

    path: Path
    old_text: str
    new_text: str
    notices: list[Notice] = field(default_factory=list)


@dataclass
class Plan:
    """Everything a map asks of a tree that is not done yet."""

    moves: list[Move]
    deletions: list[Move]
    data: list[tuple[Path, Path]]
    packages: dict[Path, str]
    changes: list[Change]

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left to do."""
        return not (self.moves or self.deletions or self.data or self.packages) and not any(
            change.new_text != change.old_text for change in self.changes
        )


class Tree:
    """A repository and a map to apply to it."""

    def __init__(self, root: Path, maps: Iterable[Path], roots: Roots | None = None) -> None:
        self.root = root
        self.roots = roots or Roots(root)
        self.files = _tracked(root)
        self.moves: MoveMap = read_maps(maps, self.roots, self.files)
        self._defined: dict[str, frozenset[str]] = {}

    @cached_property
    def modules(self) -> dict[str, Path]:
        """Every module that is there now."""
        return self.roots.modules(self.files)

    @cached_property
    def _old_names(self) -> dict[str, str]:
        return {move.new: move.old for move in self.moves.moves if move.new}

    def attributes(self, module: str) -> frozenset[str]:
        """The module-level names of a module, wherever it lies now."""
        if module not in self._defined:
            tree = self._tree_of(module)
            self._defined[module] = frozenset() if tree is None else defined_names(tree)
        return self._defined[module]

    def _tree_of(self, module: str) -> ast.Module | None:
        names = (module, self.moves.new_name(module), self._old_names.get(module))
        path = next((self.modules[name] for name in names if name in self.modules), None)
        return None if path is None else ast.parse((self.root / path).read_bytes())

    @cached_property
    def world(self) -> World:
        """What a file must know to be rewritten."""
        known = frozenset(self.modules) | {move.new for move in self.moves.moves if move.new}
        text = TextRewriter(self.moves, self.roots, known, self.attributes)
        return World(self.moves, self.roots, known, text, self._symbols(), self._constants())

    def _symbols(self) -> dict[tuple[str, str], tuple[str, str]]:
        """Where symbols went, and the modules that hand them on under their new name."""
        found: dict[tuple[str, str], tuple[str, str]] = {}
        for symbol in self.moves.symbols:
            self._refuse_unready(symbol.new_module, symbol.new_name, symbol.module, symbol.name)
            found[symbol.module, symbol.name] = (symbol.new_module, symbol.new_name)
        waiting = [key for key, (module, _) in found.items() if module == key[0]]
        handed_on = self._handed_on({name for _, name in waiting})
        while waiting:
            module, name = waiting.pop()
            new = found[module, name][1]
            for importer, source in handed_on.get((module, name), ()):
                names = Names(source)
                if (importer, name) not in found and names.can_rename(name, new, names.module):
                    found[importer, name] = (importer, new)
                    waiting.append((importer, name))
        return found

    def _handed_on(self, wanted: set[str]) -> dict[tuple[str, str], list[tuple[str, Source]]]:
        """Which modules import a symbol at their top level, by its module and name."""
        found: dict[tuple[str, str], list[tuple[str, Source]]] = {}
        for importer, path in self.modules.items() if wanted else ():
            text = (self.root / path).read_bytes().decode()
            if not any(name in text for name in wanted):
                continue
            source = Source(text)
            for node in source.tree.body:
                if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    module = self.moves.new_name(node.module)
                    for alias in node.names:
                        if alias.name in wanted and alias.asname is None:
                            entry = (self.moves.new_name(importer), source)
                            found.setdefault((module, alias.name), []).append(entry)
        return found

    def _refuse_unready(self, module: str, name: str, old_module: str, old_name: str) -> None:
        tree = self._tree_of(module)
        there = frozenset() if tree is None else defined_names(tree, with_imports=False)
        if module == old_module and not {name, old_name} & there:
            raise MapError(f"{module} defines neither {old_name} nor {name}")
        if module != old_module and name not in there:
            raise MapError(f"{module} defines no {name}; move the definition of {old_name} first")

    def _constants(self) -> dict[tuple[str, str], str]:
        """Module-level strings, by which data files are looked up in packages."""
        found: dict[tuple[str, str], str] = {}
        for module, path in self.modules.items() if self.moves.data else ():
            for node in ast.parse((self.root / path).read_bytes()).body:
                if isinstance(node, ast.Assign):
                    targets, value = node.targets, node.value
                elif isinstance(node, ast.AnnAssign) and node.value is not None:
                    targets, value = [node.target], node.value
                else:
                    continue
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    found.update(
                        {(module, t.id): value.value for t in targets if isinstance(t, ast.Name)}
                    )
        return found

    # Planning

    def plan(self) -> Plan:
        """What is left to do."""
        world = self.world
        present = set(self.files)
        moves = [
            move
            for move in self.moves.moves
            if move.new_path not in (None, move.old_path) and move.old_path in present
        ]
        deletions = [
            move for move in self.moves.moves if move.new_path is None and move.old_path in present
        ]
        for move in deletions:
            self._refuse_contents(move)
        data = [
            (old, new)
            for old, new in self.moves.data
            if any(path == old or path.is_relative_to(old) for path in present)
        ]
        self._refuse_leftovers(moves, data)
        return Plan(moves, deletions, data, self._packages(), list(self._changes(world)))

    def _refuse_contents(self, move: Move) -> None:
        body = ast.parse((self.root / move.old_path).read_bytes()).body
        if [node for node in body if not isinstance(node, ast.Expr)]:
            raise MapError(f"{move.old}: only modules that hold nothing but words can be deleted")

    def _refuse_leftovers(self, moves: Sequence[Move], data: Sequence[tuple[Path, Path]]) -> None:
        """Data files of a package that goes away must go somewhere too."""
        gone = {move.old_path.parent for move in moves if move.old_path.stem == INIT}
        taken = [old for old, _ in data]
        for path in self.files:
            if path.suffix == ".py" or not gone.intersection(path.parents):
                continue
            if not any(path == old or path.is_relative_to(old) for old in taken):
                raise MapError(f"{path} would be left behind; add a row for it")

    def _packages(self) -> dict[Path, str]:
        """The ``__init__.py`` files that must be made, with their docstrings."""
        there = set(self.files) | {m.new_path for m in self.moves.moves if m.new_path is not None}
        there -= {m.old_path for m in self.moves.moves if m.old_path != m.new_path}
        had = {path.parent for path in self.files if path.stem == INIT}
        found: dict[Path, str] = {}
        for name, words in self.moves.packages.items():
            path = self.roots.path_of(name, is_package=True)
            if path not in there:
                found[path] = words
        for move in self.moves.moves:
            if move.new_path is None:
                continue
            top = self.roots.path_of(move.new.split(".")[0], is_package=True).parent
            wanted = move.new_path.parts[0] in PACKAGES_IN or move.old_path.parent in had
            for folder in move.new_path.parents if wanted else ():
                path = folder / f"{INIT}.py"
                if not folder.is_relative_to(top) or (folder == top and top.name == "tests"):
                    break
                if path not in there and path not in found:
                    found[path] = f"The package {folder.name}."
        return found

    def _changes(self, world: World) -> Iterator[Change]:
        by_path = {move.old_path: move for move in self.moves.moves}
        by_new = {move.new_path: move for move in self.moves.moves if move.new_path is not None}
        for path in self.files:
            name = path.as_posix()
            if path.suffix not in TEXT_SUFFIXES or name.startswith(LEFT_ALONE):
                continue
            try:
                text = (self.root / path).read_bytes().decode()
            except UnicodeDecodeError:
                continue
            if path not in by_path and not self._is_concerned(path, text):
                continue
            if path.suffix == ".py":
                move = by_path.get(path) or by_new.get(path)
                new, notices = self._python(path, text, move)
            elif path.suffix == ".md":
                new, notices = rewrite_markdown(world, text)
            else:
                new, notices = world.text.rewrite(text)
            if new != text or notices:
                yield Change(path, text, new, notices)

    @cached_property
    def _triggers(self) -> tuple[str, ...]:
        """Texts one of which is in every file that must be looked at."""
        found: set[str] = set()
        for move in self.moves.moves:
            parent = move.old.rpartition(".")[0]
            found.update((move.old, f"from {parent} import", f"{parent}.{{"))
            is_init = move.old_path.stem == INIT
            # The end of a path is part of every way to write it.
            path = move.old_path.parent if is_init else move.old_path
            found.add("/".join(path.parts[-2:]))
        for old, _ in self.moves.data:
            package = self.roots.module_of(old.parent / f"{INIT}.py")
            found.update(name for name in (old.as_posix(), package) if name)
        found.update(symbol.name for symbol in self.moves.symbols)
        return tuple(found)

    def _is_concerned(self, path: Path, text: str) -> bool:
        if path.suffix == ".py" and ("from ." in text or "__file__" in text):
            return True
        return any(trigger in text for trigger in self._triggers)

    def _python(self, path: Path, text: str, move: Move | None) -> tuple[str, list[Notice]]:
        here = self.roots.module_of(path)
        there = move.new or None if move is not None else here
        final = move.new_path if move is not None and move.new_path is not None else path
        rewriter = FileRewriter(
            self.world, text, here, there, path.stem == INIT, final.stem == INIT, path, final
        )
        try:
            return rewriter.rewrite(), rewriter.notices
        except SyntaxError as error:
            raise MapError(f"{path}:{error.lineno}: cannot be parsed: {error.msg}") from None

    # Doing

    def apply(self, plan: Plan, *, tidy: bool) -> None:
        """Move the files, write the texts, and sort the imports of what changed."""
        places = {path: path for path in self.files}
        for move in plan.moves:
            if move.new_path is not None:
                self._git_move(move.old_path, move.new_path)
                places[move.old_path] = move.new_path
        for old, new in plan.data:
            self._git_move(old, new)
            for path in self.files:
                if path == old or path.is_relative_to(old):
                    places[path] = new / path.relative_to(old)
        for move in plan.deletions:
            _git(self.root, "rm", "--quiet", "--force", move.old_path.as_posix())
        written: list[Path] = []
        for change in plan.changes:
            path = places[change.path]
            if change.new_text != change.old_text and (self.root / path).exists():
                (self.root / path).write_bytes(change.new_text.encode())
                written.append(path)
        for path, words in plan.packages.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(f'"""{words}"""\n', encoding="utf-8")
            _git(self.root, "add", path.as_posix())
        self._sweep({move.old_path.parent for move in (*plan.moves, *plan.deletions)})
        if tidy:
            moved = [move.new_path for move in plan.moves if move.new_path is not None]
            self._tidy(sorted({path for path in (*written, *moved) if path.suffix == ".py"}))

    def _git_move(self, old: Path, new: Path) -> None:
        (self.root / new).parent.mkdir(parents=True, exist_ok=True)
        _git(self.root, "mv", old.as_posix(), new.as_posix())

    def _sweep(self, folders: Iterable[Path]) -> None:
        """Take away folders that hold only caches; Python would still import them."""
        for folder in sorted(folders, key=lambda path: -len(path.parts)):
            for place in (self.root / folder, *(self.root / folder).parents):
                if place == self.root or not place.is_dir():
                    continue
                if any(p for p in place.rglob("*") if p.is_file() and p.suffix != ".pyc"):
                    break
                shutil.rmtree(place)

    def _tidy(self, paths: Sequence[Path]) -> None:
        ruff = shutil.which("ruff") or str(Path(sys.executable).with_name("ruff"))
        names = [path.as_posix() for path in paths]
        for start in range(0, len(names), 500):
            some = names[start : start + 500]
            for command in (
                ["check", "--select", "I,RUF022", "--fix", "--quiet"],
                ["format", "--quiet"],
            ):
                subprocess.run([ruff, *command, *some], cwd=self.root, check=True)

    # Checking

    def leftovers(self) -> Iterator[str]:
        """Every old file that is still there, and every place that uses an old name."""
        present = set(self.files)
        for move in self.moves.moves:
            if move.old_path in present and move.old_path != move.new_path:
                yield f"{move.old_path}: is still there"
        for old, _ in self.moves.data:
            if any(path == old or path.is_relative_to(old) for path in present):
                yield f"{old}: is still there"
        for change in self._changes(self.world):
            for notice in change.notices:
                if notice.message.endswith("is deleted"):
                    yield f"{change.path}:{notice.line}: {notice.message}"
            before = change.old_text.splitlines()
            for number, (old_line, new_line) in enumerate(
                zip(before, change.new_text.splitlines(), strict=False), start=1
            ):
                if old_line != new_line:
                    yield f"{change.path}:{number}: {old_line.strip()}"
                    break


def _tracked(root: Path) -> list[Path]:
    listed = _git(root, "ls-files", "-z")
    return [Path(name) for name in listed.split("\0") if name and (root / name).is_file()]


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout
