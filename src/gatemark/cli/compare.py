"""``gatemark compare``: compare two runs over the same items."""

from __future__ import annotations

import click

from gatemark.cli.options import (
    ALPHA,
    FiniteRange,
    ForeignLog,
    OptionGroup,
    StrictCommand,
    actor_option,
    foreign_log_options,
    max_errors_option,
    store_option,
)
from gatemark.cli.screen import Outputs, byte_progress, output_options, wants_color
from gatemark.core.policy import EXIT_BY_OUTCOME
from gatemark.core.text import visible
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.report.words import VERDICT_WORDS
from gatemark.samples.compare import CompareRequest, compare_files
from gatemark.samples.compare_verdict import DEFAULT_SEED, CompareSettings
from gatemark.samples.views import (
    ComparisonReport,
    render_comparison_json,
    render_comparison_markdown,
    render_comparison_text,
)

COLORS = {"pass": "green", "fail": "red", "inconclusive": "yellow"}

settings_options = OptionGroup(
    CompareSettings,
    alpha=click.option("--alpha", type=ALPHA, default=0.05, help="Significance level."),
    margin=click.option(
        "--margin",
        type=FiniteRange(0, 1, max_open=True),
        help="Maximum tolerated drop, for scores inside [0, 1].",
    ),
    largest_drop=click.option(
        "--largest-drop",
        type=FiniteRange(0, 1, min_open=True),
        help="Largest possible change in one item, for graded scores; tightens bounds.",
    ),
    lower_is_better=click.option(
        "--lower-is-better",
        metavar="NAME",
        multiple=True,
        help="Score that is better when lower; repeatable.",
    ),
    higher_is_better=click.option(
        "--higher-is-better",
        metavar="NAME",
        multiple=True,
        help="Score that is better when higher; repeatable.",
    ),
    seed=click.option("--seed", type=click.IntRange(0), default=DEFAULT_SEED, help="Random seed."),
    resamples=click.option(
        "--resamples",
        type=click.IntRange(99, 999_999),
        default=9_999,
        help="Number of bootstrap and sign-flip resamples.",
    ),
)


@click.command("compare", cls=StrictCommand)
@click.argument("base")
@click.argument("cand")
@click.option(
    "--score", metavar="NAME", help="Score to compare; required if both sides have several."
)
@click.option(
    "--cluster",
    metavar="KEY",
    help="Tag (or the field 'cluster') of items that may succeed or fail together.",
)
@click.option(
    "--base-arm", metavar="NAME|NUMBER", help="Experiment of BASE to read, by name or number."
)
@click.option(
    "--cand-arm", metavar="NAME|NUMBER", help="Experiment of CAND to read, by name or number."
)
@click.option(
    "--seal", "sealing", is_flag=True, help="Seal the comparison as a result that can be cited."
)
@actor_option
@store_option
@foreign_log_options
@settings_options
@max_errors_option
@output_options(".json", ".md")
def compare_command(
    outputs: Outputs,
    settings: CompareSettings,
    log: ForeignLog,
    *,
    base: str,
    cand: str,
    score: str | None,
    cluster: str | None,
    base_arm: str | None,
    cand_arm: str | None,
    sealing: bool,
    actor: str | None,
    store: str,
    max_errors: int,
) -> int:
    """Compare a candidate's samples with a baseline's, item by item.

    BASE and CAND are gatemark.sample/1 files (plain, gzip or zstd; one may be '-') or logs of a
    tool that 'gatemark import' reads. Samples are paired by id and epoch; an item answered in
    several epochs counts once, by its mean. Scores of 0 and 1 use the exact McNemar test, others
    BCa and sign flips, clusters a cluster-robust t.

    Logs and common names tell whether higher or lower scores are better; state it for others.
    Scores that were made with other settings, and one file on both sides, are inconclusive.

    Without --margin: fail if the candidate is significantly worse (two-sided p below alpha); pass
    if a drop of 0.05 is ruled out or the candidate is significantly better. With --margin: pass if
    a larger drop is ruled out, fail if the drop is larger even at its lower bound. Otherwise the
    verdict is inconclusive. Errors, missing scores and unpaired items never pass.

    With --seal, the samples of both sides and the verdict are stored as a result that names who
    scored. It can be cited, but a promotion also needs the required pack.

    Exit 0 pass, 1 fail, 2 bad input, 3 inconclusive.

    \b
    Examples:
      gatemark compare base.jsonl cand.jsonl --score exact --margin 0.02
      gatemark compare old.eval new.eval --cluster document -o compare.md
      gatemark compare pf.json pf.json --base-arm baseline --cand-arm candidate
      gatemark compare old.csv new.csv --score severity --lower-is-better severity
      gatemark compare old.csv new.csv --from csv --map id=question_id,score=correct
    """
    request = CompareRequest(
        base=base,
        cand=cand,
        score=score,
        cluster=cluster,
        id_path=log.id_path,
        tool=log.tool,
        columns=log.columns,
        base_arm=base_arm,
        cand_arm=cand_arm,
        settings=settings,
    )
    if sealing:
        compared = _compare_and_seal(request, store, actor)
    else:
        with byte_progress("comparing") as progress:
            compared = compare_files(
                request, ReadingChoices(max_errors=max_errors), on_progress=progress
            )
    outputs.write(
        {
            ".json": lambda: render_comparison_json(compared),
            ".md": lambda: render_comparison_markdown(compared),
        }
    )
    outputs.show(compared, _format_text, is_styled=True)
    return EXIT_BY_OUTCOME[compared.verdict]


def _compare_and_seal(request: CompareRequest, store: str, actor: str | None) -> ComparisonReport:
    # A comparison alone needs no store.
    from gatemark.packs.seal_compare import seal_comparison  # noqa: PLC0415
    from gatemark.workspace import Workspace  # noqa: PLC0415

    workspace = Workspace(store=store, actor=actor)
    _, compared = seal_comparison(workspace, request, started_at=workspace.clock())
    return compared


def _format_text(compared: ComparisonReport) -> str:
    word = VERDICT_WORDS[compared.verdict]
    if wants_color():
        word = click.style(word, fg=COLORS[compared.verdict], bold=True)
    sealed = "" if compared.result_id is None else f"\nsealed: {compared.result_id}"
    return f"{word}  {visible(render_comparison_text(compared))}{sealed}"
