"""Make ``examples/notebooks``: ``python tools/make_notebooks.py``.

Cells are written here, since notebooks are hard to review. They have no outputs; a test runs them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parents[1] / "examples" / "notebooks"
Cells = tuple[tuple[str, str], ...]
COMPARE: Final[Cells] = (
    (
        "markdown",
        "# Gate two logs\n\nThe help desk of a ferry company has a new prompt. Both versions "
        "answered the same 80 questions in promptfoo. May the new one go ahead?",
    ),
    ("code", 'import gatemark\n\nbase, cand = "../ferry/base.json", "../ferry/cand.json"'),
    ("code", "comparison = gatemark.compare(base, cand)\ncomparison"),
    (
        "markdown",
        "The verdict is *fail*: the candidate lost 17 questions and gained none. Which ones?",
    ),
    (
        "code",
        "report = comparison.report\n"
        "assert (report.verdict, report.lost, report.gained) == ('fail', 17, 0)\n"
        "[item.id for item in report.worst][:5]",
    ),
    ("markdown", "Look at the questions behind them. All are about prices."),
    (
        "code",
        "samples = {one['id']: one for one in gatemark.import_log(cand)}\n"
        "lost = [samples[item.id] for item in report.worst]\n"
        "assert {one['tags']['topic'] for one in lost} >= {'prices'}\n"
        "[(one['input'], one['output']) for one in lost][:3]",
    ),
    (
        "markdown",
        "How large a drop would you have tolerated? With a margin, a pass means that a larger drop "
        "is ruled out.",
    ),
    (
        "code",
        "tolerant = gatemark.compare(base, cand, margin=0.4)\n"
        "assert tolerant.verdict == 'pass'\n"
        "tolerant.report.reason",
    ),
)
PACK: Final[Cells] = (
    (
        "markdown",
        "# Run a pack and look at its result\n\nThe pack of `examples/rag-answers` asks questions "
        "about plants, and checks each answer and its source.",
    ),
    (
        "code",
        "import tempfile\n\nimport gatemark\n\nstore = tempfile.mkdtemp()\n"
        'result = gatemark.run("../rag-answers/pack.yaml", store=store)\nresult',
    ),
    (
        "code",
        "assert result.verdict == 'fail'\n"
        "[(one.rule, one.verdict) for one in result.findings if one.verdict == 'fail']",
    ),
    ("markdown", "The answers of the candidate, one row each."),
    (
        "code",
        "answers = result.samples('answers')\n"
        "wrong = [one for one in answers if one['scores']['assertions'] == 0]\n"
        "assert 0 < len(wrong) < len(answers)\n"
        "(wrong[0]['input'], wrong[0]['output'])",
    ),
    ("markdown", "The baseline in place of the candidate passes: the change is at fault."),
    (
        "code",
        "old = {'python': 'rag:old', 'files': ['documents.json']}\n"
        "again = gatemark.run('../rag-answers/pack.yaml', candidate=old, store=store)\n"
        "assert again.verdict == 'pass'\n"
        "again.raise_for_verdict().verdict",
    ),
    ("markdown", "Both results are sealed in the store. Nothing in it was changed:"),
    ("code", "found = gatemark.verify(store)\nassert not found.issues\nfound.verdict"),
)
NOTEBOOKS: Final[dict[str, Cells]] = {"gate-two-logs.ipynb": COMPARE, "run-a-pack.ipynb": PACK}


def notebook(cells: Cells) -> str:
    """Cells in the format of notebooks."""
    made = []
    for number, (kind, text) in enumerate(cells):
        cell: dict[str, object] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
        cell["source"] = text.splitlines(keepends=True)
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        made.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {
        "cells": made,
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, indent=1) + "\n"


def main() -> int:
    """Write every notebook."""
    for name, cells in NOTEBOOKS.items():
        (FOLDER / name).write_text(notebook(cells), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
