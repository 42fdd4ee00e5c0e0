"""What is known of a whole tree while one of its files is rewritten, and one parsed file."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from moving.maps import MoveMap, Roots
from moving.scopes import Names, Scope, Source, Span
from moving.text import Notice, TextRewriter


@dataclass(frozen=True)
class World:
    """The modules of a tree, its map, where symbols went, and the strings that modules define."""

    moves: MoveMap
    roots: Roots
    known: frozenset[str]
    text: TextRewriter
    symbols: Mapping[tuple[str, str], tuple[str, str]]
    constants: Mapping[tuple[str, str], str]

    def module_name(self, name: str) -> str | None:
        """What a module is called after the moves; None when there is no such module."""
        if name in self.moves.names or name in self.known:
            return self.moves.new_name(name)
        return None

    def constant_of(self, new_module: str, name: str) -> str | None:
        """A string that a module defines, found by the new name of the module."""
        for (module, constant), value in self.constants.items():
            if constant == name and self.moves.new_name(module) == new_module:
                return value
        return None


@dataclass
class Parsed:
    """A source with its names and nodes, and the edits that it collects."""

    source: Source
    names: Names = field(init=False)
    nodes: list[ast.AST] = field(default_factory=list)
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    scope_of: dict[ast.AST, Scope] = field(default_factory=dict)
    modules: dict[tuple[Scope, str], str] = field(default_factory=dict)
    edits: dict[Span, str] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names = Names(self.source)
        # Every node with its parent and scope in one pass: most of the time goes here.
        waiting: list[tuple[ast.AST, Scope]] = [(self.source.tree, self.names.module)]
        while waiting:
            node, scope = waiting.pop()
            for child in ast.iter_child_nodes(node):
                self.nodes.append(child)
                self.parents[child] = node
                self.scope_of[child] = scope
                waiting.append((child, self.names.scopes.get(child, scope)))

    def edit(self, span: Span, new: str) -> None:
        """Replace some bytes of the source."""
        self.edits[span] = new

    def notice(self, node: ast.stmt | ast.expr, message: str) -> None:
        """Tell a person to look at a place."""
        self.notices.append(Notice(node.lineno, message))
