"""Rewriting one Python file: imports, names that come from them, and names of packages in strings.

Every change is an edit of some bytes of the source, placed by the positions that ``ast`` gives, so
that nothing else moves: no comment, no quote, no blank line.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from moving.places import follow_data, keep_own_places
from moving.scopes import Scope, Source, Span
from moving.text import Notice
from moving.world import Parsed, World

_ATTRIBUTE_CALLS = frozenset({"setattr", "getattr", "hasattr", "delattr", "object"})


class _Target(NamedTuple):
    """Where one imported name comes from now: a module to import from, and a name in it."""

    module: str
    name: str
    is_module: bool


class _Line(NamedTuple):
    """One name of an import statement: the name, what it is bound to, and whether as an alias."""

    name: str
    asname: str | None

    def __str__(self) -> str:
        return self.name if self.asname is None else f"{self.name} as {self.asname}"


@dataclass
class FileRewriter:
    """One source: ``here`` is the module as its text was written, ``there`` as it will be."""

    world: World
    text: str
    here: str | None
    there: str | None
    is_package: bool = False
    will_be_package: bool = False
    path: Path | None = None
    new_path: Path | None = None
    notices: list[Notice] = field(default_factory=list)

    def rewrite(self) -> str:
        """The source after the moves."""
        self.parsed = Parsed(Source(self.text), notices=self.notices)
        self.source, self.names = self.parsed.source, self.parsed.names
        self._use_at = {use.span: use for use in self.names.uses}
        self._imports_from = [n for n in self.parsed.nodes if isinstance(n, ast.ImportFrom)]
        for node in self.parsed.nodes:
            if isinstance(node, ast.ImportFrom):
                self._import_from(node)
            elif isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                self._code_in_string(node, node.value)
        self._definitions()
        self._attributes()
        follow_data(self.world, self.parsed, self.here)
        if self.path is not None and self.new_path is not None:
            keep_own_places(self.parsed, self.path, self.new_path)
        return self._applied()

    # Imports

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            new = self.world.module_name(alias.name)
            if new is None:
                continue
            if alias.asname is not None:
                self.parsed.modules[self.parsed.scope_of[node], alias.asname] = new
            if new != alias.name:
                start = self.source.span(alias).start
                self.parsed.edit(Span(start, start + len(alias.name)), new)

    def _import_from(self, node: ast.ImportFrom) -> None:
        base = _absolute(node, self.here, is_package=self.is_package)
        # A folder of tests may be a package without being a module.
        names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        if base is None or all(self.world.module_name(str(name)) is None for name in names):
            return
        groups: dict[str, list[_Line]] = {}
        changed = False
        for alias in node.names:
            target = self._target(base, alias.name)
            if target.module == self.there and not target.is_module:
                # The definition was moved into this very module.
                self.parsed.notice(node, f"{alias.name} is defined here now; its import is dropped")
                changed = True
                continue
            line = self._line(node, alias, target)
            old = _Line(alias.name, alias.asname)
            changed = changed or line != old
            groups.setdefault(target.module, []).append(line)
        if changed or not self._means_the_same(node, groups):
            self._write_import(node, groups)

    def _target(self, base: str, name: str) -> _Target:
        whole = self.world.module_name(f"{base}.{name}")
        if whole is not None and whole != "":
            package, _, leaf = whole.rpartition(".")
            return _Target(package, leaf, is_module=True)
        module = self.world.module_name(base) or base
        if (module, name) in self.world.symbols:
            return _Target(*self.world.symbols[module, name], is_module=False)
        return _Target(module, name, is_module=False)

    def _line(self, node: ast.ImportFrom, alias: ast.alias, target: _Target) -> _Line:
        scope = self.parsed.scope_of[node]
        bound = alias.asname or alias.name
        if target.is_module:
            self.parsed.modules[scope, bound] = f"{target.module}.{target.name}"
        if alias.asname is not None:
            is_needless = alias.asname == target.name != alias.name
            return _Line(target.name, None if is_needless else alias.asname)
        if target.name == alias.name:
            return _Line(alias.name, None)
        if self._all_become(bound, target.name, scope) and self.names.can_rename(
            bound, target.name, scope
        ):
            for use in self.names.of(bound, scope):
                self.parsed.edit(use.span, target.name)
            self._rename_in_all(scope, bound, target.name)
            if target.is_module:
                self.parsed.modules[scope, target.name] = f"{target.module}.{target.name}"
            return _Line(target.name, None)
        self.parsed.notice(node, f"{target.name} is taken here; {bound} stays as an alias of it")
        return _Line(target.name, bound)

    def _all_become(self, bound: str, new: str, scope: Scope) -> bool:
        """Whether every import that binds a name in a scope would bind the new one."""
        for node in self._imports_from:
            base = _absolute(node, self.here, is_package=self.is_package)
            for alias in node.names if self.parsed.scope_of[node] is scope else ():
                same = (alias.asname or alias.name) == bound
                if same and (base is None or self._target(base, alias.name).name != new):
                    return False
        return True

    def _means_the_same(self, node: ast.ImportFrom, groups: Mapping[str, list[_Line]]) -> bool:
        """Whether the module part of an import can stay as it is written."""
        return groups.keys() == {_absolute(node, self.there, is_package=self.will_be_package)}

    def _write_import(self, node: ast.ImportFrom, groups: Mapping[str, list[_Line]]) -> None:
        span = self.source.span(node)
        segment = self.source.data[span.start : span.end].decode()
        (module, *others) = groups or [""]
        if module and not others and len(groups[module]) == len(node.names):
            # One module: only the words that change are touched, so that comments stay.
            if not self._means_the_same(node, groups):
                self.parsed.edit(
                    self.source.find(r"from\s+([.\w]+)\s+import\b", span.start), module
                )
            for alias, line in zip(node.names, groups[module], strict=True):
                if line != _Line(alias.name, alias.asname):
                    self.parsed.edit(self.source.span(alias), str(line))
            return
        if "#" in segment:
            self.parsed.notice(node, "comments inside this import are dropped")
        line_start = self.source.data.rfind(b"\n", 0, span.start) + 1
        indent = self.source.data[line_start : span.start].decode()
        comment = self._comment_after(span.end)
        glue = f"{comment}\n{indent}" if not indent.strip() else "; "
        statements = [
            # A module on the top level has no package to be imported from.
            f"{f'from {name} ' if name else ''}import {', '.join(map(str, lines))}"
            for name, lines in groups.items()
        ]
        if not statements and not indent:
            self.parsed.edit(Span(span.start, span.end + 1), "")
        else:
            self.parsed.edit(span, glue.join(statements) or "pass")

    def _comment_after(self, offset: int) -> str:
        end = self.source.data.find(b"\n", offset)
        rest = self.source.data[offset : end if end >= 0 else None].decode()
        return rest.rstrip() if rest.strip().startswith("#") else ""

    def _code_in_string(self, node: ast.Constant, text: str) -> None:
        """Rewrite programs that a test hands to another process."""
        if "\n" not in text or "import " not in text:
            return
        span = self.source.span(node)
        raw = self.source.data[span.start : span.end]
        start = span.start + raw.find(text.encode())
        if start < span.start:
            # Escapes or formatting: places in the value are not places in the source.
            return
        inner = FileRewriter(self.world, text, None, None)
        try:
            new = inner.rewrite()
        except SyntaxError:
            return
        line = self.source.line_of(start)
        self.notices.extend(Notice(line + n.line - 1, n.message) for n in inner.notices)
        self.parsed.edit(Span(start, start + len(text.encode())), new)

    # Symbols

    def _definitions(self) -> None:
        """Rename what this module defines, and every use of it inside."""
        for (module, name), (target, new) in self.world.symbols.items():
            if module != self.there or target != module or name not in self.names.module.bound:
                continue
            uses = self.names.of(name, self.names.module)
            if not uses or self._is_imported(name):
                continue
            if not self.names.can_rename(name, new, self.names.module):
                self.notices.append(Notice(1, f"{name} cannot become {new}: the name is taken"))
                continue
            for use in uses:
                self.parsed.edit(use.span, new)
            self._rename_in_all(self.names.module, name, new)

    def _is_imported(self, name: str) -> bool:
        return any(
            isinstance(node, ast.Import | ast.ImportFrom)
            and any((alias.asname or alias.name) == name for alias in node.names)
            for node in self.source.tree.body
        )

    def _rename_in_all(self, scope: Scope, name: str, new: str) -> None:
        if scope is not self.names.module:
            return
        for node in self.source.tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
                for part in ast.walk(node):
                    if isinstance(part, ast.Constant) and part.value == name:
                        span = self.source.span(part)
                        self.parsed.edit(Span(span.start + 1, span.end - 1), new)

    def _attributes(self) -> None:
        """Rename ``module.name`` and the names in ``setattr(module, "name", …)``."""
        for node in self.parsed.nodes if self.parsed.modules else ():
            if isinstance(node, ast.Attribute):
                self._attribute(node)
            elif isinstance(node, ast.Call) and len(node.args) > 1:
                called = node.func
                word = called.attr if isinstance(called, ast.Attribute) else ""
                word = called.id if isinstance(called, ast.Name) else word
                module = self._module_meant(node.args[0])
                name = node.args[1]
                if (
                    word in _ATTRIBUTE_CALLS
                    and module is not None
                    and isinstance(name, ast.Constant)
                    and (module, name.value) in self.world.symbols
                ):
                    span = self.source.span(name)
                    new = self.world.symbols[module, str(name.value)]
                    self._renamed(node, module, new, Span(span.start + 1, span.end - 1))

    def _attribute(self, node: ast.Attribute) -> None:
        module = self._module_meant(node.value)
        if module is None:
            return
        if (module, node.attr) in self.world.symbols:
            end = self.source.span(node).end
            span = Span(end - len(node.attr.encode()), end)
            self._renamed(node, module, self.world.symbols[module, node.attr], span)
        elif self.world.moves.is_moved(f"{module}.{node.attr}"):
            self.parsed.notice(
                node, f"{module}.{node.attr} has moved and is reached through {module}"
            )

    def _renamed(self, node: ast.expr, module: str, new: tuple[str, str], span: Span) -> None:
        if new[0] != module:
            self.parsed.notice(node, f"{new[1]} is in {new[0]} now and is reached through {module}")
        else:
            self.parsed.edit(span, new[1])

    def _module_meant(self, node: ast.expr) -> str | None:
        if not isinstance(node, ast.Name):
            return None
        use = self._use_at.get(self.source.span(node))
        owner = use.scope.owner(node.id) if use is not None else None
        return self.parsed.modules.get((owner, node.id)) if owner is not None else None

    # Edits

    def _applied(self) -> str:
        """The source with all edits; what lies between them is rewritten as text."""
        pieces: list[str] = []
        before = 0
        for span, new in sorted(self.parsed.edits.items()):
            if span.start < before:
                # Inside a statement that is replaced as a whole.
                continue
            pieces.append(self._plain(before, span.start))
            pieces.append(new)
            before = span.end
        pieces.append(self._plain(before, len(self.source.data)))
        return "".join(pieces)

    def _plain(self, start: int, end: int) -> str:
        text = self.source.data[start:end].decode()
        new, notices = self.world.text.rewrite(text)
        first = self.source.line_of(start)
        self.notices.extend(Notice(first + n.line - 1, n.message) for n in notices)
        return new


def _absolute(node: ast.ImportFrom, module: str | None, *, is_package: bool) -> str | None:
    """The module that an import names, seen from a module; None when that cannot be told."""
    if node.level == 0:
        return node.module
    if module is None:
        return None
    parts = module.split(".")
    package = parts[: len(parts) - node.level + (1 if is_package else 0)]
    return ".".join([*package, *([node.module] if node.module else [])])


_FENCE = re.compile(r"(?ms)^(?P<open>```(?:python|py)\n)(?P<code>.*?)(?P<close>^```)")


def rewrite_markdown(world: World, text: str) -> tuple[str, list[Notice]]:
    """A page: Python blocks are rewritten as Python, everything else as text."""
    pieces: list[str] = []
    notices: list[Notice] = []
    for kind, start, end in _blocks(text):
        part = text[start:end]
        first = text.count("\n", 0, start)
        if kind == "python":
            rewriter = FileRewriter(world, part, None, None)
            try:
                new = rewriter.rewrite()
                found = rewriter.notices
            except SyntaxError:
                new, found = world.text.rewrite(part)
        else:
            new, found = world.text.rewrite(part)
        pieces.append(new)
        notices.extend(Notice(first + n.line, n.message) for n in found)
    return "".join(pieces), notices


def _blocks(text: str) -> Iterator[tuple[str, int, int]]:
    before = 0
    for match in _FENCE.finditer(text):
        yield "text", before, match.start("code")
        yield "python", match.start("code"), match.end("code")
        before = match.end("code")
    yield "text", before, len(text)
