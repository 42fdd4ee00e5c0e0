"""Which binding every name in a module belongs to, so that renaming touches nothing else."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BUILTINS = frozenset(dir(builtins))


class Span(NamedTuple):
    """A place in a source, as offsets of its UTF-8 bytes."""

    start: int
    end: int


@dataclass(eq=False)
class Scope:
    """A module, class, function or comprehension, and the names that it binds."""

    kind: str
    parent: Scope | None
    bound: set[str] = field(default_factory=set)
    outer: dict[str, str] = field(default_factory=dict)

    def upwards(self) -> Iterator[Scope]:
        """Yield the scopes that a look-up of a name walks through, from here outwards."""
        yield self
        scope = self.parent
        while scope is not None:
            if scope.kind != "class":
                yield scope
            scope = scope.parent

    def owner(self, name: str) -> Scope | None:
        """The scope whose binding a use of ``name`` here means; None for built-ins."""
        here = self.outer.get(name)
        for scope in self.upwards():
            if here == "global" and scope.kind != "module":
                continue
            if scope is self and here == "nonlocal":
                continue
            if name in scope.bound and scope.outer.get(name) is None:
                return scope
        return None


class Use(NamedTuple):
    """One place that says a name."""

    name: str
    scope: Scope
    span: Span


class Source:
    """A parsed module with the byte offset of every line."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.data = text.encode()
        self.tree = ast.parse(text)
        self._starts = [0]
        for line in self.data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def offset(self, line: int, column: int) -> int:
        """The byte offset of an AST position."""
        return self._starts[line - 1] + column

    def span(self, node: ast.stmt | ast.expr | ast.alias | ast.arg | ast.keyword) -> Span:
        """Where a node stands."""
        end_line = node.end_lineno or node.lineno
        end_column = node.end_col_offset or node.col_offset
        return Span(self.offset(node.lineno, node.col_offset), self.offset(end_line, end_column))

    def line_of(self, offset: int) -> int:
        """The line of a byte offset, counted from 1."""
        return self.data.count(b"\n", 0, offset) + 1

    def find(self, pattern: str, start: int) -> Span:
        """The first group of a pattern that matches at or after an offset."""
        found = re.compile(pattern.encode()).search(self.data, start)
        if found is None:
            raise ValueError(f"{pattern} is not in the source after byte {start}")
        return Span(*found.span(1))


class Names(ast.NodeVisitor):
    """Every use and every binding of every name in a source."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.module = Scope("module", None)
        self.uses: list[Use] = []
        self.scopes: dict[ast.AST, Scope] = {}
        self._scope = self.module
        self.visit(source.tree)

    def of(self, name: str, owner: Scope) -> list[Use]:
        """All uses of one binding, its own place included."""
        return [use for use in self.uses if use.name == name and use.scope.owner(name) is owner]

    def can_rename(self, name: str, new: str, owner: Scope) -> bool:
        """Whether a binding can take a new name without meeting another one."""
        if new in owner.bound or (new in _BUILTINS and owner.kind == "module"):
            return False
        for use in self.of(name, owner):
            for scope in use.scope.upwards():
                if scope is owner:
                    break
                if new in scope.bound:
                    return False
        # A use of the new name that means something outside must not be caught.
        for use in self.uses:
            if use.name == new and owner in tuple(use.scope.upwards()):
                meant = use.scope.owner(new)
                if meant is None or meant not in _inside(owner, use.scope):
                    return False
        return True

    # Bindings

    def _bind(self, name: str, span: Span, scope: Scope | None = None) -> None:
        scope = scope or self._scope
        if scope.outer.get(name) is None:
            scope.bound.add(name)
        else:
            target = self.module if scope.outer[name] == "global" else scope.parent
            if target is not None and scope.outer[name] == "global":
                target.bound.add(name)
        self.uses.append(Use(name, scope, span))

    def visit_Name(self, node: ast.Name) -> None:
        span = self.source.span(node)
        if isinstance(node.ctx, ast.Load):
            self.uses.append(Use(node.id, self._scope, span))
        else:
            self._bind(node.id, span)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        scope = self._scope
        while scope.kind == "comprehension" and scope.parent is not None:
            scope = scope.parent
        self._bind(node.target.id, self.source.span(node.target), scope)

    def visit_Global(self, node: ast.Global) -> None:
        self._outer(node, "global")

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self._outer(node, "nonlocal")

    def _outer(self, node: ast.Global | ast.Nonlocal, kind: str) -> None:
        start = self.source.span(node).start
        for name in node.names:
            self._scope.outer[name] = kind
            self._scope.bound.discard(name)
            span = self.source.find(rf"\b({name})\b", start)
            self.uses.append(Use(name, self._scope, span))
            start = span.end

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            # Imports are rewritten as a whole elsewhere, so that they bind but are no use.
            self._scope.bound.add(alias.asname or alias.name.split(".")[0])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name != "*":
                self._scope.bound.add(alias.asname or alias.name)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name is not None:
            start = self.source.offset(node.lineno, node.col_offset)
            if node.type is not None:
                start = self.source.span(node.type).end
            self._bind(node.name, self.source.find(rf"\bas\s+({node.name})\b", start))
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self._capture(node, node.name)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self._capture(node, node.name)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self._capture(node, node.rest)

    def _capture(self, node: ast.pattern, name: str | None) -> None:
        if name is not None:
            # The captured name is the last word of its pattern.
            end = self.source.offset(node.end_lineno, node.end_col_offset)
            text = self.source.data[:end].rstrip(b"} \n\t,")
            self._bind(name, Span(len(text) - len(name.encode()), len(text)))
        self.generic_visit(node)

    # Scopes

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        self._bind(node.name, self._name_of(node, "class"))
        self._within(node, "class", node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        self._outside_of(node.args)
        if node.returns is not None:
            self._annotation(node.returns)
        self._bind(node.name, self._name_of(node, "def"))
        self._within(node, "function", node.body, node.args)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._outside_of(node.args)
        self._within(node, "function", [node.body], node.args)

    def _outside_of(self, arguments: ast.arguments) -> None:
        """Defaults and annotations are looked up around a function, not in it."""
        for default in (*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)):
            self.visit(default)
        for argument in _arguments(arguments):
            if argument.annotation is not None:
                self._annotation(argument.annotation)

    def _name_of(
        self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, word: str
    ) -> Span:
        start = self.source.offset(node.lineno, node.col_offset)
        return self.source.find(rf"\b{word}\s+({node.name})\b", start)

    def _within(
        self,
        node: ast.AST,
        kind: str,
        body: list[ast.stmt] | list[ast.expr],
        arguments: ast.arguments | None = None,
    ) -> None:
        before, self._scope = self._scope, Scope(kind, self._scope)
        self.scopes[node] = self._scope
        for argument in _arguments(arguments) if arguments is not None else ():
            start = self.source.span(argument).start
            self._bind(argument.arg, Span(start, start + len(argument.arg.encode())))
        for part in body:
            self.visit(part)
        self._scope = before

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, _COMPREHENSIONS):
            self._comprehension(node)
        else:
            super().generic_visit(node)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    ) -> None:
        first, *others = node.generators
        self.visit(first.iter)
        before, self._scope = self._scope, Scope("comprehension", self._scope)
        self.visit(first.target)
        for condition in first.ifs:
            self.visit(condition)
        for other in others:
            self.visit(other)
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for part in parts:
            self.visit(part)
        self._scope = before

    # Annotations and casts may hold names in quotes.

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._annotation(node.annotation)
        if node.value is not None:
            self.visit(node.value)
        self.visit(node.target)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id == "cast" and node.args:
            self._annotation(node.args[0])
        for keyword in node.keywords:
            if keyword.arg == "bound":
                self._annotation(keyword.value)
        self.generic_visit(node)

    def _annotation(self, node: ast.expr) -> None:
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                self._quoted(part, part.value)
        self.visit(node)

    def _quoted(self, node: ast.Constant, text: str) -> None:
        span = self.source.span(node)
        if self.source.data[span.start + 1 : span.end - 1] != text.encode():
            return
        try:
            inner = ast.parse(text, mode="eval")
        except SyntaxError:
            return
        for name in ast.walk(inner):
            if isinstance(name, ast.Name):
                start = span.start + 1 + name.col_offset
                self.uses.append(
                    Use(name.id, self._scope, Span(start, start + len(name.id.encode())))
                )


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    found = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [*found, *(one for one in (arguments.vararg, arguments.kwarg) if one is not None)]


def _inside(owner: Scope, scope: Scope) -> list[Scope]:
    """The scopes from a use up to, and without, the owner of a binding."""
    found: list[Scope] = []
    for one in scope.upwards():
        if one is owner:
            break
        found.append(one)
    return found


def defined_names(tree: ast.Module, *, with_imports: bool = True) -> frozenset[str]:
    """The names that a module binds at its top level, conditional blocks included."""
    found: set[str] = set()
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.asname or alias.name.split(".")[0] for alias in node.names]
            found.update(names if with_imports else ())
        else:
            for part in ast.iter_child_nodes(node):
                if isinstance(part, ast.stmt):
                    waiting.append(part)
                elif isinstance(part, ast.ExceptHandler):
                    waiting.extend(part.body)
                elif isinstance(part, ast.expr):
                    found.update(
                        name.id
                        for name in ast.walk(part)
                        if isinstance(name, ast.Name) and not isinstance(name.ctx, ast.Load)
                    )
    return frozenset(found)
