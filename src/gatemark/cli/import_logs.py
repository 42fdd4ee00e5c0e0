"""``gatemark import``: turn logs of other tools into samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import click

from gatemark.cli.options import (
    ForeignLog,
    OptionGroup,
    StrictCommand,
    foreign_log_options,
    json_option,
    max_errors_option,
)
from gatemark.cli.screen import byte_progress, say, show
from gatemark.core.errors import ExitCode, UsageError
from gatemark.evidence.reading_choices import OnBadLine, ReadingChoices
from gatemark.report.words import one_line
from gatemark.samples.import_logs import ImportSummary, import_logs, read_arms_of_logs
from gatemark.samples.import_targets import Imported, import_targets
from gatemark.samples.importer import LogExperiment
from gatemark.samples.prepare import Preparation

SAMPLES: Final = "samples"

preparation_options = OptionGroup(
    Preparation,
    redact=click.option(
        "--redact", is_flag=True, help="Replace texts that contain personal data or secrets."
    ),
    dedupe=click.option(
        "--dedupe", is_flag=True, help="Keep the first of samples with the same input."
    ),
    answered=click.option(
        "--answered",
        is_flag=True,
        help="Keep only samples with an output and no error, for a replay suite.",
    ),
    take=click.option(
        "--take", type=click.IntRange(1), metavar="N", help="Number of samples to draw."
    ),
    seed=click.option("--seed", type=int, default=0, help="Random seed of the draw."),
    stratify=click.option(
        "--stratify", metavar="TAG", help="Tag whose values keep their shares in the draw."
    ),
)


def _list_record_types() -> str:
    *first, last = [SAMPLES, *(target.summary for target in import_targets())]
    return f"{', '.join(first)}, or {last}" if first else last


@click.command("import", cls=StrictCommand)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--arm",
    metavar="NAME|NUMBER",
    help="Experiment to read from a log with several: its name, or its number from 1.",
)
@foreign_log_options
@click.option("--list-arms", is_flag=True, help="List the experiments in the logs, and stop.")
@click.option(
    "--on-bad-line",
    type=click.Choice(["error", "exclude"]),
    default="error",
    help="What to do about a row that cannot be read: write nothing, or exclude the row.",
)
@click.option(
    "--to",
    "--record-type",
    type=click.Choice([SAMPLES, *import_targets().names()]),
    default=SAMPLES,
    help=f"Record type to write: {_list_record_types()}.",
)
@preparation_options
@max_errors_option
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="File to write samples or decisions to (.jsonl), or folder for traces.",
)
@json_option
def import_command(
    prepared: Preparation,
    log: ForeignLog,
    *,
    files: tuple[str, ...],
    arm: str | None,
    list_arms: bool,
    on_bad_line: OnBadLine,
    to: str,
    max_errors: int,
    output: str | None,
    json: bool,
) -> int:
    """Convert other tools' logs into samples, and account for every row.

    Reads logs of Inspect, lm-evaluation-harness, promptfoo, DeepEval, MLflow, pydantic-evals,
    OpenAI evals, HELM and Ragas, data sets of Langfuse, conversations of agents, and traces in
    OTLP JSON (GenAI or OpenInference attributes; scores also from OTLP logs, as files or a folder)
    or exported from Langfuse. --map reads any other table. With --to traces, also conversations
    that LangGraph, AutoGen or CrewAI exported as JSON. Writes gatemark.sample/1, one line per
    sample in the order of ids, or only counts when no -o is given. An item that errored is kept
    with its error. The tool's own aggregates are compared with the rows. A run that was cut short
    (--limit, filters, crashes) and a log that contradicts its own aggregates or scores are marked,
    and no comparison of them passes.

    \b
    Examples:
      gatemark import logs/run.eval -o samples.jsonl
      gatemark import results_1.json samples_task_1.jsonl -o base.jsonl
      gatemark import --list-arms promptfoo.json
      gatemark import promptfoo.json --arm baseline --id testCase.metadata.case_id -o base.jsonl
      gatemark import scores.csv --from csv --map id=question_id,score=correct -o samples.jsonl
      gatemark import traces.jsonl --redact --dedupe --take 200 --seed 7 -o recent.jsonl
      gatemark import traces.jsonl logs.jsonl --from otlp -o scored.jsonl
      gatemark import traces.jsonl --to decisions -o decisions.jsonl
      gatemark import history.json --to traces --from langgraph -o data/traces
      gatemark import chat.json --from chat-log --to decisions -o decisions.jsonl
    """
    if list_arms:
        show(read_arms_of_logs(files, tool=log.tool), _format_arms, json=json)
        return ExitCode.PASS
    exclude_bad = on_bad_line == "exclude"
    finish = partial(_finish, exclude_bad=exclude_bad, max_errors=max_errors, json=json)
    if to == SAMPLES:
        with byte_progress("importing") as progress:
            summary = import_logs(
                files,
                tool=log.tool,
                arm=arm,
                id_path=log.id_path,
                columns=log.columns,
                output=output,
                prepared=prepared,
                choices=ReadingChoices(on_bad_line=on_bad_line),
                on_progress=progress,
            )
        refusals = [refusal for read in summary.logs for refusal in read.refusals]
        return finish(summary, _sample_lines(summary), refusals)
    _check_other(to, prepared, arm, log.id_path)
    target = import_targets().get(to)
    made = target.convert(
        files, tool=log.tool, output=output, redact=prepared.redact, exclude_bad=exclude_bad
    )
    return finish(made, target.lines(made), made.refusals)


def _finish(
    made: ImportSummary | Imported,
    lines: Iterator[str],
    refusals: Sequence[str],
    *,
    exclude_bad: bool,
    max_errors: int,
    json: bool,
) -> int:
    """Print refused rows and the summary; return the exit code."""
    for refusal in refusals[:max_errors]:
        say(f"gatemark: {one_line(refusal)}", err=True)
    if len(refusals) > max_errors:
        say(f"gatemark: and {len(refusals) - max_errors} more refused rows", err=True)
    show(made, lambda _: lines, json=json)
    if exclude_bad or not refusals:
        return ExitCode.PASS
    say(
        "gatemark: rows were refused, so nothing was written; "
        "use --on-bad-line exclude to continue without them",
        err=True,
    )
    return ExitCode.BAD_INPUT


def _check_other(to: str, prepared: Preparation, arm: str | None, id_path: str | None) -> None:
    """Raise UsageError for options that apply to samples only."""
    given = {
        "arm": arm,
        "id": id_path,
        "dedupe": prepared.dedupe,
        "answered": prepared.answered,
        "take": prepared.take,
        "stratify": prepared.stratify,
    }
    for name, value in given.items():
        if value:
            raise UsageError(f"--{name} applies to samples, not to {to}")


def _format_arms(arms: Sequence[LogExperiment]) -> Iterator[str]:
    for number, arm in enumerate(arms, start=1):
        yield f"{number:>3}  {arm.row_count:>8} rows  {one_line(arm.name)}"


def _sample_lines(summary: ImportSummary) -> Iterator[str]:
    for log in summary.logs:
        arm = f", arm {log.arm}" if log.arm else ""
        lines = [
            f"{', '.join(log.files)}: {log.tool}{arm}: {log.received} received, "
            f"{log.accepted} accepted ({log.errored} errored), {log.refused} refused"
        ]
        if log.scores:
            first = f" (shown first: {log.headline})" if log.headline else ""
            lines.append(f"scores: {', '.join(log.scores)}{first}")
        checks = [check.line() for check in log.checks]
        lines += [
            f"{'agrees' if check.agrees else 'DIFFERS'}: {line}"
            for check, line in zip(log.checks, checks, strict=True)
        ]
        lines += [f"note: {note}" for note in log.notes if note not in checks]
        yield "\n  ".join(map(one_line, lines))
    for count, words in (
        (summary.redacted, "samples were redacted"),
        (summary.unanswered, "have no output or an error and were left out"),
        (summary.repeats, "repeated another's input and were left out"),
        (summary.not_drawn, "were not drawn"),
    ):
        if count:
            yield f"{count} {words}"
    yield f"written: {summary.output}" if summary.output else "nothing was written"
    if summary.snapshot is not None:
        yield f"snapshot: {summary.snapshot}"
