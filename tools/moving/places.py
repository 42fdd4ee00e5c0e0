"""Places that a file names: data files inside packages, and folders above the file itself."""

from __future__ import annotations

import ast
from pathlib import Path

from moving.scopes import Span
from moving.world import Parsed, World


def follow_data(world: World, parsed: Parsed, here: str | None) -> None:
    """Let packages in ``files("…")`` and ``PackageLoader("…")`` follow their data files."""
    for node in parsed.nodes if world.moves.data else ():
        if not (isinstance(node, ast.Call) and node.args):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else None
        name = node.func.id if isinstance(node.func, ast.Name) else name
        first = node.args[0]
        if (
            name in ("files", "PackageLoader")
            and isinstance(first, ast.Constant)
            and isinstance(first.value, str)
        ):
            _follow_package(world, parsed, first, _Inside(world, parsed, here).path(node))


def _follow_package(world: World, parsed: Parsed, place: ast.Constant, inside: str | None) -> None:
    package = str(place.value)
    top, *rest = package.split(".")
    base = world.roots.packages.get(top, "")
    folder = Path(base, top, *rest)
    moved = [(old, new) for old, new in world.moves.data if old.is_relative_to(folder)]
    if inside is not None:
        homes = {new.parent for old, new in moved if old == folder / inside.split("/")[0]}
    else:
        homes = {new.parent for old, new in moved if old.parent == folder}
    if len(homes) == 1:
        (home,) = homes
        span = parsed.source.span(place)
        dotted = ".".join(home.relative_to(base).parts)
        parsed.edit(Span(span.start + 1, span.end - 1), dotted)
    elif homes:
        parsed.notice(place, f"data files of {package} go to several places; name the right one")


class _Inside:
    """Finds the first folder or file that a call looks for inside a package."""

    def __init__(self, world: World, parsed: Parsed, here: str | None) -> None:
        self.world = world
        self.parsed = parsed
        self.here = here

    def path(self, node: ast.Call) -> str | None:
        """The literal or constant that follows the package; None when it cannot be told."""
        if isinstance(node.func, ast.Name) and node.func.id == "PackageLoader":
            return self._constant(node.args[1]) if len(node.args) > 1 else "templates"
        above = self.parsed.parents.get(node)
        if isinstance(above, ast.BinOp) and above.left is node:
            return self._constant(above.right)
        if isinstance(above, ast.Attribute) and above.attr == "joinpath":
            call = self.parsed.parents.get(above)
            if isinstance(call, ast.Call) and call.args:
                return self._constant(call.args[0])
        return None

    def _constant(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.Name):
            return self._named(node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            for (_, bound), module in self.parsed.modules.items():
                if bound == node.value.id:
                    return self.world.constant_of(module, node.attr)
        return None

    def _named(self, name: str) -> str | None:
        if self.here is not None and (self.here, name) in self.world.constants:
            return self.world.constants[self.here, name]
        for statement in self.parsed.source.tree.body:
            if isinstance(statement, ast.ImportFrom):
                for alias in statement.names:
                    if (alias.asname or alias.name) == name:
                        return self.world.constants.get((statement.module or "", alias.name))
        return None


def keep_own_places(parsed: Parsed, path: Path, new_path: Path) -> None:
    """Let ``Path(__file__).parents[2]`` lead to the same folder from the new place of a file."""
    if path == new_path or "__file__" not in parsed.source.text:
        return
    for node in parsed.nodes:
        if isinstance(node, ast.Attribute | ast.Subscript):
            found = _steps_up(node)
            above = parsed.parents[node]
            is_whole = not isinstance(above, ast.expr) or _steps_up(above) is None
            if found is not None and is_whole:
                _keep_own_place(parsed, node, found, (path, new_path))


def _keep_own_place(
    parsed: Parsed, node: ast.expr, found: tuple[ast.expr, int], paths: tuple[Path, Path]
) -> None:
    start, steps = found
    old, new = paths[0].parents, paths[1].parents
    if steps > len(old):
        steps_now = len(new) + steps - len(old)
    elif paths[1].is_relative_to(old[steps - 1]):
        steps_now = list(new).index(old[steps - 1]) + 1
    else:
        parsed.notice(node, "a place beside this file; the file moves elsewhere")
        return
    if steps_now != steps:
        word = ".parent" if steps_now == 1 else f".parents[{steps_now - 1}]"
        parsed.edit(Span(parsed.source.span(start).end, parsed.source.span(node).end), word)


def _steps_up(node: ast.expr) -> tuple[ast.expr, int] | None:
    """How many folders an expression goes up from ``Path(__file__)``, and where it starts to."""
    steps = 0
    while True:
        if isinstance(node, ast.Attribute) and node.attr == "parent":
            steps, node = steps + 1, node.value
        elif (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Attribute)
            and node.value.attr == "parents"
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, int)
        ):
            steps, node = steps + node.slice.value + 1, node.value.value
        else:
            break
    start = node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        # The path may be resolved first.
        node = node.func.value if node.func.attr in ("resolve", "absolute") else node
    is_own_path = (
        isinstance(node, ast.Call)
        and len(node.args) == 1
        and isinstance(node.args[0], ast.Name)
        and node.args[0].id == "__file__"
    )
    return (start, steps) if steps and is_own_path else None
