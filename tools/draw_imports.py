"""Draw which package imports which, from the imports that are really there.

    python tools/draw_imports.py            print the drawing
    python tools/check_docs.py --write      put it into docs/architecture.md

A line that another path implies is left out: when drift imports lifecycle and lifecycle imports
the ledger, the drawing does not repeat that drift imports the ledger, too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

import grimp

TOP: Final = "gatemark"
RINGS: Final = ("checks", "release", "plugins")
"""Packages that are drawn as a frame around theirs."""
OPENING: Final = "<!-- made by tools/draw_imports.py -->\n"
CLOSING: Final = "<!-- end of the drawing -->"

Packages = dict[str, set[str]]


@cache
def package_imports() -> Packages:
    """What each package imports: of the first level, or of a ring."""
    graph = grimp.build_graph(TOP, cache_dir=None)
    packages: Packages = {}
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            pair = (_package(module), _package(imported))
            if all(pair) and pair[0] != pair[1]:
                packages.setdefault(pair[0], set()).add(pair[1])
    return packages


def _package(module: str) -> str:
    """The name under the top package; empty for the top package itself and its entry point."""
    _, _, below = module.partition(".")
    name, _, rest = below.partition(".")
    if name == "__main__":
        return ""
    if name not in RINGS:
        return name
    # What lies in a ring itself, beside its packages, has the name of the ring.
    package = rest.partition(".")[0]
    return f"{name}.{package}" if package in _packages_of(name) else name


@cache
def _packages_of(ring: str) -> frozenset[str]:
    graph = grimp.build_graph(TOP, cache_dir=None)
    children = graph.find_children(f"{TOP}.{ring}")
    return frozenset(child.rpartition(".")[2] for child in children if graph.find_children(child))


def without_implied(packages: Mapping[str, Iterable[str]]) -> Packages:
    """Only the lines that no longer path implies; the lines must not run in circles."""
    reached: Packages = {}

    def reach(package: str) -> set[str]:
        if package not in reached:
            direct = set(packages.get(package, ()))
            reached[package] = direct.union(*(reach(one) for one in direct))
        return reached[package]

    return {
        package: {
            one for one in direct if not any(one in reach(other) for other in set(direct) - {one})
        }
        for package, direct in packages.items()
    }


def drawing(packages: Mapping[str, Iterable[str]]) -> str:
    """A Mermaid flowchart with one arrow per line, and a frame around each ring."""
    lines = ["```mermaid", "flowchart TD"]
    named = sorted({*packages, *(one for found in packages.values() for one in found)})
    for ring in RINGS:
        own = [name for name in named if name.partition(".")[0] == ring]
        lines += [
            f"    subgraph {ring}_ring [{ring}]",
            *(f"        {one}" for one in own),
            "    end",
        ]
    for package in sorted(packages):
        lines.extend(f"    {package} --> {one}" for one in sorted(packages[package]))
    return "\n".join((*lines, "```", ""))


def with_drawing(page: str) -> str:
    """A page with the drawing as it is now between the two marks, at its end if it has none."""
    before, _, rest = page.partition(OPENING)
    _, mark, after = rest.partition(CLOSING)
    mark = mark or f"{CLOSING}\n"
    return before + OPENING + drawing(without_implied(package_imports())) + mark + after


if __name__ == "__main__":
    sys.stdout.write(drawing(without_implied(package_imports())))
