"""``gatemark compare``: what changed between two runs over the same items."""

from __future__ import annotations

from typing import Any

import click

from gatemark.cli.options import (
    ALPHA,
    FiniteRange,
    from_option,
    id_option,
    json_option,
    max_errors_option,
)
from gatemark.cli.screen import byte_progress, print_json, wants_color
from gatemark.core.policy import EXIT_BY_OUTCOME
from gatemark.evidence.reading_options import ReadingChoices
from gatemark.report.outputs import check_extensions, write_documents
from gatemark.report.words import VERDICT_WORDS
from gatemark.samples.compare import CompareRequest, compare_files
from gatemark.samples.compare_verdict import DEFAULT_SEED, CompareSettings
from gatemark.samples.views import plain_text, render_json, render_markdown

COLORS = {"pass": "green", "fail": "red", "inconclusive": "yellow"}
EXTENSIONS = (".json", ".md")


@click.command("compare")
@click.argument("base")
@click.argument("cand")
@click.option("--score", metavar="NAME", help="Which score; needed where both sides have several.")
@click.option(
    "--cluster",
    metavar="KEY",
    help="Items that share this tag (or the field 'cluster') may succeed or fail together.",
)
@id_option
@from_option
@click.option("--base-arm", metavar="NAME", help="Which experiment of BASE.")
@click.option("--cand-arm", metavar="NAME", help="Which experiment of CAND.")
@click.option(
    "--alpha",
    type=ALPHA,
    default=0.05,
    show_default=True,
    help="How rare chance must make a result.",
)
@click.option(
    "--margin",
    type=FiniteRange(0, 1, max_open=True),
    help="The drop that may be tolerated; for scores inside [0, 1].",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=DEFAULT_SEED,
    show_default=True,
    help="Seed of everything that is drawn.",
)
@click.option(
    "--resamples",
    type=click.IntRange(99, 999_999),
    default=9_999,
    show_default=True,
    help="Bootstrap and sign-flip draws.",
)
@max_errors_option
@click.option(
    "-o",
    "--output",
    multiple=True,
    metavar="FILE",
    help="Also write the comparison; the extension picks the format (.json .md). Repeatable.",
)
@json_option
def compare_command(**flags: Any) -> int:
    """Compare a candidate's samples with a baseline's, item by item.

    BASE and CAND are gatemark.sample/1 files (plain, gzip, zstd, one may be '-') or logs of a tool
    that 'gatemark import' reads. Samples pair by id and epoch; an item answered in several epochs
    counts once, by its mean. Higher scores are better. Scores of 0 and 1 get the exact McNemar
    test, others BCa and sign flips, clusters a cluster-robust t.

    Without --margin: fail when the candidate is significantly worse (two-sided p below alpha); pass
    when a drop of 0.05 is ruled out or the candidate is significantly better. With --margin: pass
    when a larger drop is ruled out, fail when the drop is larger and not by chance. Otherwise
    inconclusive; and errors, missing scores and unpaired items never pass.

    Exit 0 pass, 1 fail, 2 bad input, 3 inconclusive.

    \b
    Examples:
      gatemark compare base.jsonl cand.jsonl --score exact --margin 0.02
      gatemark compare old.eval new.eval --cluster document -o compare.md
      gatemark compare pf.json pf.json --base-arm baseline --cand-arm candidate
    """
    check_extensions(flags["output"], EXTENSIONS)
    request = CompareRequest(
        base=flags["base"],
        cand=flags["cand"],
        score=flags["score"],
        cluster=flags["cluster"],
        id_path=flags["id"],
        tool=flags["from"],
        base_arm=flags["base_arm"],
        cand_arm=flags["cand_arm"],
        settings=CompareSettings(
            alpha=flags["alpha"],
            margin=flags["margin"],
            seed=flags["seed"],
            resamples=flags["resamples"],
        ),
    )
    with byte_progress("comparing") as progress:
        compared = compare_files(
            request, ReadingChoices(max_errors=flags["max_errors"]), on_progress=progress
        )
    write_documents(
        flags["output"],
        {".json": lambda: render_json(compared), ".md": lambda: render_markdown(compared)},
    )
    if flags["json"]:
        print_json(compared)
    else:
        word = VERDICT_WORDS[compared.verdict]
        colored = click.style(word, fg=COLORS[compared.verdict], bold=True)
        click.echo(f"{colored if wants_color() else word}  {plain_text(compared)}", nl=False)
    return EXIT_BY_OUTCOME[compared.verdict]
