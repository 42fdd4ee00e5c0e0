"""The documentation against the program: ``python tools/check_docs.py [--write]``.

Run from the root of the repository. Prints one line per problem and exits 1 when there is any;
``--write`` first writes the pages that are made from the program.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from docs_pages import drift_figures
from docs_pages.authoring import judges_page, pack_page, probes_page, scorers_page, targets_page
from docs_pages.commands import commands_page
from docs_pages.detectors import detectors_page
from docs_pages.formats import formats_page
from docs_pages.links import link_problems
from docs_pages.llms import llms_page
from docs_pages.plugins import measures_page, schemas_page, suites_page
from docs_pages.python_api import python_page
from docs_pages.reasons import reasons_page
from draw_imports import with_drawing
from gatemark.cli.main import VERBS
from gatemark.core import policy
from gatemark.core.atomic import write_whole
from gatemark.core.errors import ExitCode
from gatemark.evidence.exam_suite import suites
from gatemark.evidence.measures import measures
from gatemark.evidence.record_schemas import schemas
from gatemark.release.drift.detectors.registry import detectors

GENERATED: Final[Mapping[str, Callable[[], str]]] = {
    "docs/reference/commands.md": commands_page,
    "docs/reference/schemas.md": schemas_page,
    "docs/reference/measures.md": measures_page,
    "docs/reference/suites.md": suites_page,
    "docs/reference/pack.md": pack_page,
    "docs/reference/judges.md": judges_page,
    "docs/reference/probes.md": probes_page,
    "docs/reference/scorers.md": scorers_page,
    "docs/reference/targets.md": targets_page,
    "docs/reference/detectors.md": detectors_page,
    "docs/reference/formats.md": formats_page,
    "docs/reference/reasons.md": reasons_page,
    "docs/reference/python.md": python_page,
    "docs/llms.txt": llms_page,
}
DRAWN: Final = "docs/architecture.md"
COMMANDS: Final = "docs/reference/commands.md"
GATE: Final = "docs/explanation/gate.md"
DECISIONS: Final = "docs/adr"
_WRITE: Final = "python tools/check_docs.py --write"
_STEP: Final = re.compile(r"^\((\d+)\)", re.MULTILINE)
_STEP_HEADING: Final = re.compile(r"^## \((\d+)\)", re.MULTILINE)
_STEP_COMMENT: Final = re.compile(r"^\s*# Step (\d+)\.", re.MULTILINE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the documentation of the repository one stands in."""
    parser = argparse.ArgumentParser(prog="docs_check", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(), help="root of the repository")
    parser.add_argument("--write", action="store_true", help="write the generated pages first")
    options = parser.parse_args(arguments)
    root: Path = options.root.resolve()
    if not (root / "docs").is_dir():
        sys.stderr.write(f"docs_check: {root} has no docs folder\n")
        return ExitCode.BAD_INPUT
    if options.write:
        for path in GENERATED:
            write_whole(root / path, [_made(path).encode()])
        write_whole(root / DRAWN, [with_drawing(_text(root, DRAWN)).encode()])
        for path, made in _figures(root).items():
            write_whole(root / path, [made.encode()])
    problems = list(find_problems(root))
    for problem in problems:
        sys.stdout.write(f"{problem}\n")
    return ExitCode.FAIL if problems else ExitCode.PASS


def find_problems(root: Path) -> Iterator[str]:
    """Everything in which the documentation and the program disagree, one line each."""
    pages = markdown_pages(root)
    yield from _stale_pages(root)
    yield from link_problems(root, pages)
    yield from _missing_verbs(root)
    yield from _missing_names(root)
    yield from _step_problems(root)
    yield from _decision_problems(root)


def markdown_pages(root: Path) -> list[Path]:
    """The pages at the root and all under ``docs``."""
    return [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]


def _text(root: Path, path: str) -> str:
    page = root / path
    return page.read_text(encoding="utf-8") if page.is_file() else ""


@cache
def _made(path: str) -> str:
    """A page made from the program, which does not change while it is checked."""
    return GENERATED[path]()


def _stale_pages(root: Path) -> Iterator[str]:
    for path in GENERATED:
        if _text(root, path) != _made(path):
            yield f"{path}: differs from what the program says; run {_WRITE}"
    if _text(root, DRAWN) != with_drawing(_text(root, DRAWN)):
        yield f"{DRAWN}: its drawing differs from the imports; run {_WRITE}"
    for path, made in _figures(root).items():
        if _text(root, path) != made:
            yield f"{path}: differs from {drift_figures.KEPT}; run {_WRITE}"


def _figures(root: Path) -> dict[str, str]:
    """The page and the picture that are made from figures of the bench."""
    if not (root / drift_figures.KEPT).is_file():
        return {}
    figures = drift_figures.kept_figures(root)
    page = drift_figures.with_figures(_text(root, drift_figures.PAGE), figures)
    return {drift_figures.PAGE: page, drift_figures.PICTURE: drift_figures.picture(figures)}


def _missing_verbs(root: Path) -> Iterator[str]:
    headings = re.findall(r"^#+ gatemark (\S+)$", _text(root, COMMANDS), re.MULTILINE)
    for verb in VERBS:
        if verb not in headings:
            yield f"{COMMANDS}: has no heading for gatemark {verb}"


def _missing_names(root: Path) -> Iterator[str]:
    for registry in (schemas(), measures(), suites(), detectors()):
        page = f"docs/reference/{registry.kind}s.md"
        text = _text(root, page)
        for name in registry.names():
            if not re.search(rf"^## {re.escape(name)}$", text, re.MULTILINE):
                yield f"{page}: has no heading for {registry.kind} {name}"
        for module, why in registry.broken.items():
            yield f"{module}: cannot be documented: {why}"


def _step_problems(root: Path) -> Iterator[str]:
    promised = _STEP.findall(policy.__doc__ or "")
    coded = _STEP_COMMENT.findall(Path(policy.__file__).read_text(encoding="utf-8"))
    told = _STEP_HEADING.findall(_text(root, GATE))
    if not promised or coded != promised:
        yield f"core/policy.py: promises steps {promised}, marks {coded}"
    if told != promised:
        yield f"{GATE}: has steps {told}, core/policy.py has {promised}"


def _decision_problems(root: Path) -> Iterator[str]:
    index = _text(root, f"{DECISIONS}/README.md")
    for record in sorted((root / DECISIONS).glob("[0-9]*.md")):
        if f"({record.name})" not in index:
            yield f"{DECISIONS}/README.md: does not list {record.name}"


if __name__ == "__main__":
    sys.exit(main())
