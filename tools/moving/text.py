"""Dotted names and paths in text: strings, comments, docs, configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from moving.maps import INIT, MoveMap, Roots

_RUN = re.compile(r"-m +((?:\w+\.)+\w+)")
_DUNDER = re.compile(r"__\w+__$")
_TOKEN = re.compile(r"(?<![\w/.-])(?:\.\./)*([\w.-]+(?:/[\w.-]+)+)/?")


class Notice(NamedTuple):
    """Something that a person should look at; ``line`` counts from 1."""

    line: int
    message: str


@dataclass
class TextRewriter:
    """Rewrites what text says about moved modules, symbols and files.

    ``attributes`` gives the module-level names of a module. A dotted name is rewritten only when
    it is a module, or a module and one of its names: ``shop.watch/1`` and ``shop.watch.alert`` may
    be names of formats, which never change.
    """

    moves: MoveMap
    roots: Roots
    known: frozenset[str]
    attributes: Callable[[str], frozenset[str]]
    _names: re.Pattern[str] = field(init=False)
    _symbols: Mapping[tuple[str, str], tuple[str, str]] = field(init=False)
    _paths: dict[str, str] = field(init=False)
    _scripts: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        tops = "|".join(re.escape(top) for top in self.roots.packages)
        self._names = re.compile(rf"(?<![\w./-])((?:{tops})(?:\.[A-Za-z_]\w*)+)(:[A-Za-z_]\w*)?")
        self._symbols = {(s.module, s.name): (s.new_module, s.new_name) for s in self.moves.symbols}
        self._scripts = {
            move.old: move.new_path.as_posix()
            for move in self.moves.moves
            if move.new_path is not None and self.roots.is_script(move.new_path)
        }
        self._paths = {}
        for move in self.moves.moves:
            if move.new_path is None or move.old_path == move.new_path:
                continue
            self._add_path(move.old_path, move.new_path)
            if move.old_path.stem == INIT and move.new_path.stem == INIT:
                self._add_path(move.old_path.parent, move.new_path.parent)
        for old, new in self.moves.data:
            self._add_path(old, new)

    def _add_path(self, old: Path, new: Path) -> None:
        """Note the ways to write a path: from the repository, the source root, the package."""
        pairs = [(old.as_posix(), new.as_posix())]
        for top, folder in self.roots.packages.items():
            base = Path(folder) if folder else None
            if base is not None and old.is_relative_to(base / top):
                short = old.relative_to(base / top)
                if new.is_relative_to(base / top):
                    new_short, from_base = new.relative_to(base / top), new.relative_to(base)
                else:
                    new_short = from_base = new
                pairs.append((old.relative_to(base).as_posix(), from_base.as_posix()))
                if len(short.parts) > 1 and short.suffix == ".py":
                    pairs.append((short.as_posix(), new_short.as_posix()))
        self._paths.update(pairs)

    def rewrite(self, text: str) -> tuple[str, list[Notice]]:
        """The text after the moves, and what a person should look at."""
        notices: list[Notice] = []
        text = _RUN.sub(self._run, text)
        text = self._names.sub(lambda match: self._dotted(match, text, notices), text)
        return _TOKEN.sub(self._path, text), notices

    def old_names(self, text: str) -> Iterator[Notice]:
        """Every place that still uses an old name or path."""
        for match in self._names.finditer(text):
            now = self._dotted(match, text, [])
            if now != match.group():
                yield Notice(_line(text, match.start()), f"{match.group()} is now {now}")
        for match in _TOKEN.finditer(text):
            if self._path(match) != match.group():
                yield Notice(_line(text, match.start()), f"{match.group()} has moved")

    def _dotted(self, match: re.Match[str], text: str, notices: list[Notice]) -> str:
        whole, attribute = match.group(), match.group(2)
        module, rest = self._module_in(match.group(1).split("."))
        if not module:
            return whole
        line = _line(text, match.start())
        if not rest and text.startswith(".{", match.end()) and self._loses_modules(module):
            notices.append(Notice(line, f"modules of {module} are named at run time here"))
        if module in self.moves.names:
            if not rest and re.match(r"[/-]\w", text[match.end() : match.end() + 2]):
                return whole
            if not self.moves.names[module]:
                notices.append(Notice(line, f"{whole}: {module} is deleted"))
                return whole
            if rest and not self._is_name_of(module, rest[0]):
                why = f"{module} defines no {rest[0]}"
                notices.append(Notice(line, f"{whole} is left as it is: {why}"))
                return whole
        new = self.moves.new_name(module)
        if rest and (new, rest[0]) in self._symbols:
            return ".".join([*self._symbols[new, rest[0]], *rest[1:]]) + (attribute or "")
        if attribute and not rest and (new, attribute[1:]) in self._symbols:
            return ":".join(self._symbols[new, attribute[1:]])
        return ".".join([new, *rest]) + (attribute or "")

    def _run(self, match: re.Match[str]) -> str:
        """``python -m module`` for a module that has become a script."""
        place = self._scripts.get(match.group(1))
        return match.group() if place is None else place

    def _loses_modules(self, package: str) -> bool:
        """Whether a module moves out of a package, or gets another name in it."""
        new = self.moves.new_name(package)
        return any(
            old.rpartition(".")[0] == package and moved != f"{new}.{old.rpartition('.')[2]}"
            for old, moved in self.moves.names.items()
        )

    def _module_in(self, parts: list[str]) -> tuple[str, list[str]]:
        """The longest module that a dotted name begins with, and the rest of the name."""
        for size in range(len(parts), 0, -1):
            module = ".".join(parts[:size])
            if module in self.moves.names or module in self.known:
                return module, parts[size:]
        return "", parts

    def _is_name_of(self, module: str, name: str) -> bool:
        return bool(_DUNDER.match(name)) or name in self.attributes(module)

    def _path(self, match: re.Match[str]) -> str:
        token = match.group(1).rstrip(".")
        for cut in (token, *(str(parent) for parent in Path(token).parents if str(parent) != ".")):
            if cut in self._paths:
                start = match.start(1) - match.start()
                whole = match.group()
                return whole[:start] + self._paths[cut] + whole[start + len(cut) :]
        return match.group()


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1
