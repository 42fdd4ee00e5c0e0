"""Hold the source tree against the layering that it is moving to.

    python tools/plan_moves.py              folders of the target tree, and what stands in the way
    python tools/plan_moves.py --check      fail when there is more in the way than is known
    python tools/plan_moves.py --coverage   fail when a module or test has no row in the maps
    python tools/plan_moves.py --merge      small modules that only one other module imports

Every module is looked at under the name that it will have when all maps in ``tools/moves`` are
done, so that the figures mean the same before, between and after the steps. Known violations, each
with its remedy, are in ``tools/moves/violations.csv``; the list may only get shorter.
"""

from __future__ import annotations

import argparse
import ast
import csv
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from moving.maps import INIT, Roots

ROOT: Final = Path(__file__).resolve().parents[1]
MAPS: Final = ROOT / "tools" / "moves"
KNOWN: Final = MAPS / "violations.csv"
TOP: Final = "gatemark"
SMALL: Final = 120

# Who may import whom: a package may import those below its line. Packages on one line are
# independent of each other, except for the pairs that are named.
LAYERS: Final = (
    ("cli", "web", "testing"),
    ("demo",),
    ("integrity",),
    ("exams", "lifecycle", "drift", "schedule", "review", "attribution", "accounts"),
    ("packs",),
    ("workspace",),
    ("samples", "targets", "scorers", "ledger"),
    ("evidence", "report"),
    ("statistics",),
    ("core",),
)
ALLOWED: Final = frozenset(
    {
        ("drift", "lifecycle"),
        ("review", "lifecycle"),
        ("attribution", "lifecycle"),
        ("accounts", "lifecycle"),
        # gatemark serve is a command.
        ("cli", "web"),
    }
)
RANK: Final = {name: rank for rank, line in enumerate(reversed(LAYERS)) for name in line}


class Import(NamedTuple):
    """One module that imports another, under their final names, and what it takes from it."""

    importer: str
    imported: str
    names: tuple[str, ...]


class Violation(NamedTuple):
    """An import that the target layering does not allow, and what to do about it."""

    importer: str
    imported: str
    names: str
    remedy: str


class Layout:
    """The modules of a tree under their final names, and the imports between them."""

    def __init__(self, root: Path = ROOT, maps: Path = MAPS) -> None:
        self.root = root
        self.roots = Roots(root)
        self.rows = [row for path in sorted(maps.glob("[0-9]*.csv")) for row in _rows(path)]
        self.made = {new for old, new in self.rows if not old}
        self.rows = [(old, new) for old, new in self.rows if old]
        self.final = {old: self._name_of(new) for old, new in self.rows if new}
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True
        ).stdout
        self.files = [Path(n) for n in listed.split("\0") if n and (root / n).is_file()]
        self.modules = self.roots.modules(self.files)

    def _name_of(self, new: str) -> str:
        """The module that a row leads to; scripts are written as paths."""
        script = self.roots.module_of(Path(new)) if "/" in new else None
        return script or new.removesuffix(f".{INIT}")

    def new_name(self, module: str) -> str:
        """The final name of a module; one that has moved or is new keeps its name."""
        return self.final.get(module, module)

    @cached_property
    def sources(self) -> dict[str, Path]:
        """The modules of the package itself, without those that are to be deleted or leave it."""
        deleted = {old for old, new in self.rows if not new}
        return {
            module: path
            for module, path in self.modules.items()
            if module.split(".")[0] == TOP
            and module not in deleted
            and self.new_name(module).split(".")[0] == TOP
        }

    @cached_property
    def imports(self) -> list[Import]:
        """Every import between modules of the package."""
        return [found for module, path in self.sources.items() for found in self._of(module, path)]

    def _of(self, module: str, path: Path) -> Iterator[Import]:
        taken: dict[str, set[str]] = defaultdict(set)
        for node in ast.walk(ast.parse((self.root / path).read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    if whole in self.modules:
                        taken[whole].add("the module")
                    elif node.module in self.modules:
                        taken[node.module].add(alias.name)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name in self.modules:
                        taken[alias.name].add("the module")
        for imported, names in sorted(taken.items()):
            target = self.new_name(imported)
            if target.split(".")[0] == TOP:
                yield Import(self.new_name(module), target, tuple(sorted(names)))

    def violations(self) -> Iterator[Violation]:
        """Imports that the target layering does not allow."""
        for found in sorted(self.imports):
            above, below = _feature(found.importer), _feature(found.imported)
            if above in ("", below) or not below or _is_allowed(above, below):
                continue
            yield Violation(found.importer, found.imported, " ".join(found.names), "")
        for found in sorted(self.imports):
            if ".stores" in found.imported:
                owner = found.imported.partition(".stores")[0]
                is_own = found.importer == owner or found.importer.startswith(f"{owner}.")
                above, below = _feature(found.importer), _feature(found.imported)
                is_shown_above = not _is_allowed(above, below) and above != below
                if not is_own and above != "workspace" and not is_shown_above:
                    names = " ".join(found.names)
                    yield Violation(found.importer, found.imported, names, "")

    def cycles(self) -> Iterator[tuple[str, ...]]:
        """Siblings inside one feature that import each other, at any depth."""
        edges = {(found.importer, found.imported) for found in self.imports}
        packages = {name.rpartition(".")[0] for edge in edges for name in edge}
        parents = {".".join(p.split(".")[:n]) for p in packages for n in range(2, p.count(".") + 2)}
        for parent in sorted(parents):
            graph: dict[str, set[str]] = defaultdict(set)
            for importer, imported in edges:
                if importer.startswith(f"{parent}.") and imported.startswith(f"{parent}."):
                    left, right = _child(parent, importer), _child(parent, imported)
                    if left != right:
                        graph[left].add(right)
            for group in _cyclic(graph):
                yield tuple(sorted(group))

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Modules and lines of every folder of the target tree; ``__init__.py`` is no module."""
        names = {self.new_name(module) for module in self.sources}
        folders = {name.rpartition(".")[0] for name in names}
        found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for module, path in self.sources.items():
            name = self.new_name(module)
            folder = name if name in folders else name.rpartition(".")[0]
            found[folder][0] += name not in folders
            found[folder][1] += (self.root / path).read_bytes().count(b"\n")
        return {folder: (count, lines) for folder, (count, lines) in sorted(found.items())}

    def merges(self) -> Iterator[tuple[str, int, str]]:
        """Small modules with one importer, which is in the same feature."""
        importers: dict[str, set[str]] = defaultdict(set)
        for found in self.imports:
            importers[found.imported].add(found.importer)
        for module, path in sorted(self.sources.items(), key=lambda item: self.new_name(item[0])):
            name = self.new_name(module)
            lines = (self.root / path).read_bytes().count(b"\n")
            users = importers[name] - {name.rpartition(".")[0]}
            if path.stem != INIT and lines <= SMALL and len(users) == 1:
                (user,) = users
                if _feature(user) == _feature(name):
                    yield name, lines, user

    def uncovered(self) -> Iterator[str]:
        """Modules and tests that no map names, and rows whose module is not there."""
        named = {old for old, _ in self.rows} | set(self.final.values()) | self.made
        for module, path in sorted(self.modules.items()):
            top = module.split(".")[0]
            # The mover makes packages of test folders as it needs them.
            is_free = path.as_posix().startswith("tests/tools/") or path.stem == INIT
            if (top == TOP or (top == "tests" and not is_free)) and module not in named:
                yield f"{path}: {module} has no row"
        for old, new in self.rows:
            if new and not {old, self.final[old]} & self.modules.keys():
                yield f"{old} -> {new}: neither is there"


def _rows(path: Path) -> Iterator[tuple[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            if ":" not in row["old"] and "/" not in row["old"]:
                yield row["old"], row["new"]


def _feature(module: str) -> str:
    """The package that layering is about; exams count one by one."""
    parts = module.split(".")
    if len(parts) < 2 or parts[1] == "__main__":
        return ""
    return ".".join(parts[1:3]) if parts[1] == "exams" else parts[1]


def _is_allowed(above: str, below: str) -> bool:
    if (above, below) in ALLOWED:
        return True
    left, right = above.split(".", maxsplit=1)[0], below.split(".", maxsplit=1)[0]
    if left not in RANK or right not in RANK:
        return False
    return RANK[right] < RANK[left]


def _child(parent: str, module: str) -> str:
    return ".".join(module.split(".")[: parent.count(".") + 2])


def _cyclic(graph: dict[str, set[str]]) -> Iterator[set[str]]:
    """Groups of nodes that reach each other."""
    reach = {node: _reached(graph, node) for node in graph}
    seen: set[str] = set()
    for node in sorted(graph):
        group = {other for other in reach[node] if node in reach.get(other, ())}
        if node not in seen and node in reach[node]:
            seen |= group
            yield group


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for node in graph.get(waiting.pop(), ()):
            if node not in found:
                found.add(node)
                waiting.append(node)
    return found


def read_known() -> dict[tuple[str, str], Violation]:
    """The violations that are known, by importer and imported module."""
    with KNOWN.open(encoding="utf-8", newline="") as stream:
        rows = [Violation(**row) for row in csv.DictReader(stream)]
    return {(row.importer, row.imported): row for row in rows}


def _check(layout: Layout) -> int:
    known = read_known()
    found = {(one.importer, one.imported): one for one in layout.violations()}
    for pair in sorted(found.keys() - known.keys()):
        print(f"new: {pair[0]} imports {pair[1]} ({found[pair].names})")
    for pair in sorted(known.keys() - found.keys()):
        print(f"gone, take it off the list: {pair[0]} imports {pair[1]}")
    cycles = list(layout.cycles())
    for cycle in cycles:
        print(f"cycle: {', '.join(cycle)}")
    return 1 if found.keys() != known.keys() or cycles else 0


def _print_all(layout: Layout) -> None:
    for folder, (count, lines) in layout.sizes().items():
        print(f"{folder:<45}{count:>4} modules{lines:>8,} lines")
    known = read_known()
    found = list(layout.violations())
    print(f"\n{len(found)} imports against the layering:")
    for one in found:
        row = known.get((one.importer, one.imported))
        print(f"- {one.importer} imports {one.imported}: {one.names}")
        print(f"  {row.remedy if row is not None else 'no remedy is known'}")
    for cycle in layout.cycles():
        print(f"cycle: {', '.join(cycle)}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the plan, or check one part of it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="compare with violations.csv")
    parser.add_argument("--coverage", action="store_true", help="every module has a row")
    parser.add_argument("--merge", action="store_true", help="candidates for merging")
    options = parser.parse_args(arguments)
    layout = Layout()
    if options.coverage:
        missing = list(layout.uncovered())
        print("\n".join(missing) or "every module and test has a row")
        return 1 if missing else 0
    if options.merge:
        for module, lines, user in layout.merges():
            print(f"{lines:4} {module} <- {user}")
        return 0
    if options.check:
        return _check(layout)
    _print_all(layout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
