"""Sizes of the base install and of each extra: ``python tools/install_sizes.py [--write]``.

Measured in the environment that runs it, from the files that each distribution lists in its
RECORD, without compiled byte code. An extra counts what it adds to the base. ``--write`` puts the
table into docs/reference/install.md.
"""

from __future__ import annotations

import platform
import re
import sys
import tomllib
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

from packaging.requirements import Requirement

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "reference" / "install.md"
START: Final = "<!-- made by tools/install_sizes.py -->"
END: Final = "<!-- end of the table -->"
INNER: Final = frozenset({"test", "dev", "bench"})
"""Extras of those who work on Gatemark."""
NAMED: Final = 3
"""How many of the largest distributions a row names."""


class Size(NamedTuple):
    """What one distribution takes, in bytes."""

    name: str
    total: int


def closure(requirements: Iterable[str]) -> set[str]:
    """The distributions that requirements lead to, in this environment."""
    found: set[str] = set()
    waiting = [(Requirement(text), "") for text in requirements]
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = normalised(requirement.name)
        found.add(name)
        for wanted in ("", *sorted(requirement.extras)):
            if (name, wanted) not in seen:
                seen.add((name, wanted))
                waiting += [(Requirement(text), wanted) for text in metadata.requires(name) or ()]
    return found


def normalised(name: str) -> str:
    """A name as the package index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def size_of(name: str) -> Size:
    """The bytes of one distribution; a file that is listed twice counts once."""
    files = metadata.files(name)
    if files is None:
        raise SystemExit(f"{name} lists no files, so its size is unknown")
    paths = {Path(str(file.locate())).resolve() for file in files if file.suffix != ".pyc"}
    return Size(name, sum(path.stat().st_size for path in paths if path.is_file()))


def table() -> str:
    """The sizes as Markdown."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = sum(path.stat().st_size for path in (ROOT / "src").rglob("*") if _is_shipped(path))
    base = closure(project["dependencies"])
    lines = [
        f"Measured on {datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, "
        f"{platform.system()} {platform.machine()}, with the versions of the lock file.",
        "",
        "| Install | Size | Largest parts |",
        "|---|---:|---|",
        _row("`gatemark`", base, own),
    ]
    for extra, wanted in project["optional-dependencies"].items():
        if extra in INNER:
            continue
        try:
            added = closure([*project["dependencies"], *wanted]) - base
        except metadata.PackageNotFoundError as error:
            lines.append(f"| `[{extra}]` | not measured: {error.name} is not installed here | |")
            continue
        lines.append(_row(f"`[{extra}]`", added, 0))
    return "\n".join(lines)


def _is_shipped(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def _row(title: str, names: set[str], own: int) -> str:
    sizes = sorted((size_of(name) for name in names), key=lambda one: (-one.total, one.name))
    total = own + sum(one.total for one in sizes)
    shown = [f"{one.name} {_megabytes(one.total)}" for one in sizes[:NAMED]]
    rest = len(sizes) - len(shown)
    more = f", {rest} more" if rest > 0 else ""
    sign = "" if own else "+ "
    parts = ", ".join(shown) or "nothing: in the base"
    return f"| {title} | {sign}{_megabytes(total)} | {parts}{more} |"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count < 10e6 else f"{count / 1e6:,.0f} MB"


def main(arguments: list[str]) -> int:
    """Print the table, or put it into the page."""
    found = table()
    if "--write" not in arguments:
        print(found)
        return 0
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{START}\n{found}\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
