"""``gatemark import``: other tools' logs become samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec

from gatemark.attribution.import_decisions import DecisionsImported, import_decisions
from gatemark.cli.options import from_option, id_option, json_option, max_errors_option
from gatemark.cli.screen import byte_progress, print_json
from gatemark.core.errors import ExitCode, UsageError
from gatemark.evidence.reading_options import ReadingChoices
from gatemark.report.words import one_line
from gatemark.samples.import_logs import ImportSummary, arms_of_logs, import_logs
from gatemark.samples.prepare import Preparation

SAMPLES_ONLY: Final = ("arm", "id", "dedupe", "take", "stratify")


@click.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@from_option
@click.option("--arm", metavar="NAME", help="Which experiment to read, where a log holds several.")
@id_option
@click.option("--list-arms", is_flag=True, help="Only list the experiments in the logs.")
@click.option(
    "--on-bad-line",
    type=click.Choice(["error", "exclude"]),
    default="error",
    show_default=True,
    help="Write nothing when a row cannot be read, or go on without it.",
)
@click.option(
    "--to",
    type=click.Choice(["samples", "decisions"]),
    default="samples",
    show_default=True,
    help="What to make; traces can become decisions for 'gatemark attribute'.",
)
@click.option("--redact", is_flag=True, help="Replace texts that show personal data or secrets.")
@click.option("--dedupe", is_flag=True, help="Keep the first of samples with the same input.")
@click.option("--take", type=click.IntRange(1), metavar="N", help="Draw N samples.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the draw.")
@click.option(
    "--stratify", metavar="TAG", help="Draw so that the values of this tag keep their shares."
)
@max_errors_option
@click.option("-o", "--output", metavar="FILE", help="Where to write the samples (.jsonl).")
@json_option
def import_command(**flags: Any) -> int:
    """Turn other tools' logs into samples, with every row accounted for.

    Reads logs of Inspect, lm-evaluation-harness, promptfoo, DeepEval, MLflow and pydantic-evals,
    and traces in OTLP JSON (GenAI or OpenInference attributes) or exported from Langfuse.
    Writes gatemark.sample/1, one line per sample in the order of ids, or only counts when no -o is
    given. An item that errored is kept with its error. The tool's own aggregates are compared with
    the rows. A run that was cut short (--limit, filters, crashes) is refused.

    \b
    Examples:
      gatemark import logs/run.eval -o samples.jsonl
      gatemark import results_1.json samples_task_1.jsonl -o base.jsonl
      gatemark import --list-arms promptfoo.json
      gatemark import promptfoo.json --arm baseline --id testCase.metadata.case_id -o base.jsonl
      gatemark import traces.jsonl --redact --dedupe --take 200 --seed 7 -o recent.jsonl
      gatemark import traces.jsonl --to decisions -o decisions.jsonl
    """
    files, tool = flags["files"], flags["from"]
    if flags["list_arms"]:
        arms = arms_of_logs(files, tool=tool)
        if flags["json"]:
            print_json([msgspec.structs.asdict(arm) for arm in arms])
        else:
            for arm in arms:
                click.echo(f"{arm.row_count:>8}  {one_line(arm.name)}")
        return ExitCode.PASS
    if flags["to"] == "decisions":
        return _decisions(flags)
    with byte_progress("importing") as progress:
        summary = import_logs(
            files,
            tool=tool,
            arm=flags["arm"],
            id_path=flags["id"],
            output=flags["output"],
            prepared=Preparation(
                redact=flags["redact"],
                dedupe=flags["dedupe"],
                take=flags["take"],
                seed=flags["seed"],
                stratify=flags["stratify"],
            ),
            choices=ReadingChoices(on_bad_line=flags["on_bad_line"]),
            on_progress=progress,
        )
    refusals = [refusal for log in summary.logs for refusal in log.refusals]
    _tell_refusals(refusals, flags["max_errors"])
    if flags["json"]:
        print_json(summary)
    else:
        _tell(summary)
    return _exit_code(refusals, flags)


def _decisions(flags: dict[str, Any]) -> int:
    for name in SAMPLES_ONLY:
        if flags[name]:
            raise UsageError(f"--{name} is about samples and not about decisions")
    made: DecisionsImported = import_decisions(
        flags["files"],
        tool=flags["from"],
        output=flags["output"],
        redact=flags["redact"],
        exclude_bad=flags["on_bad_line"] == "exclude",
    )
    _tell_refusals(made.refusals, flags["max_errors"])
    if flags["json"]:
        print_json(made)
    else:
        click.echo(f"{made.decisions} decisions, {made.refused} refused")
        if made.redacted:
            click.echo(f"{made.redacted} decisions were redacted")
        click.echo(f"written: {made.output}" if made.output else "nothing was written")
    return _exit_code(made.refusals, flags)


def _exit_code(refusals: Sequence[str], flags: dict[str, Any]) -> int:
    if not refusals or flags["on_bad_line"] == "exclude":
        return ExitCode.PASS
    click.echo(
        "gatemark: rows were refused, so nothing was written; "
        "--on-bad-line exclude goes on without them",
        err=True,
    )
    return ExitCode.BAD_INPUT


def _tell_refusals(refusals: Sequence[str], limit: int) -> None:
    for refusal in refusals[:limit]:
        click.echo(f"gatemark: {one_line(refusal)}", err=True)
    if len(refusals) > limit:
        click.echo(f"gatemark: and {len(refusals) - limit} more refused rows", err=True)


def _tell(summary: ImportSummary) -> None:
    for log in summary.logs:
        arm = f", arm {log.arm}" if log.arm else ""
        lines = [
            f"{', '.join(log.files)}: {log.tool}{arm}: {log.received} received, "
            f"{log.accepted} accepted ({log.errored} errored), {log.refused} refused"
        ]
        if log.scores:
            first = f" (shown first: {log.headline})" if log.headline else ""
            lines.append(f"scores: {', '.join(log.scores)}{first}")
        told = [check.line() for check in log.checks]
        lines += [
            f"{'agrees' if check.agrees else 'DIFFERS'}: {line}"
            for check, line in zip(log.checks, told, strict=True)
        ]
        lines += [f"note: {note}" for note in log.notes if note not in told]
        click.echo("\n  ".join(map(one_line, lines)))
    for count, words in (
        (summary.redacted, "samples were redacted"),
        (summary.repeats, "repeated another's input and were left out"),
        (summary.not_drawn, "were not drawn"),
    ):
        if count:
            click.echo(f"{count} {words}")
    click.echo(f"written: {summary.output}" if summary.output else "nothing was written")
    if summary.snapshot is not None:
        click.echo(f"snapshot: {summary.snapshot}")
