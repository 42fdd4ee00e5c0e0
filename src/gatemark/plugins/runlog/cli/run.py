"""``gatemark runlog run``: replay traces and write run logs."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from gatemark.cli.options import StrictCommand, json_option
from gatemark.cli.screen import count_progress, say, show
from gatemark.cli.struct_options import struct_group
from gatemark.core.errors import ExitCode, UsageError
from gatemark.plugins.runlog.cli.options import cases_option, read_source_date
from gatemark.plugins.runlog.records.fields import EVAL_RUN_PATTERN, is_moment, matches_pattern
from gatemark.plugins.runlog.replay.models import parse_model_choice
from gatemark.plugins.runlog.replay.run import RunOutcome, VariantSummary, run_cases
from gatemark.plugins.runlog.replay.run_request import RunRequest
from gatemark.workspace import Workspace


@click.command("run", cls=StrictCommand)
@struct_group(RunRequest)
@click.option(
    "--model",
    default="rules",
    show_default=True,
    help="Language model: rules, a recording (.jsonl), or the settings of a target (.yaml).",
)
@click.option("--buffer-model", help="Model of the buffer agent (default: --model).")
@click.option("--summarizer-model", help="Model of the summarizer (default: --model).")
@cases_option
@json_option
def run_command(
    request: RunRequest,
    *,
    model: str,
    buffer_model: str | None,
    summarizer_model: str | None,
    jobs: int | None,
    json: bool,
) -> int:
    """Replay traces through variants and write their run logs.

    Writes DIR/V0/CASE.jsonl.gz and so on, and DIR/run_summaries. The manifest lists the cases; one
    that cannot be replayed is listed with its reason, has no log, and makes the command exit with
    1. So does a language model that does not answer. With more unreadable answers than
    --max-unparsable allows, or a variant without any summary, the exit code is 3. The same inputs
    give the same bytes for any -j.

    \b
    Examples:
      gatemark runlog run --traces data/traces --variant V0 --variant V2
      gatemark runlog run --model endpoint.yaml --record answers.jsonl --case clinical
      gatemark runlog run --model answers.jsonl --compat source
    """
    request = msgspec.structs.replace(
        _check_request(request),
        buffer_model=parse_model_choice(buffer_model or model),
        summarizer_model=parse_model_choice(summarizer_model or model),
    )
    with count_progress("cases") as progress:
        done = run_cases(Workspace(jobs=jobs), request, progress)
    _print_problems(done)
    show(done, _render_run, json=json)
    if done.failed_count or done.model_failure_count:
        return ExitCode.FAIL
    return ExitCode.INCONCLUSIVE if done.caveats else ExitCode.PASS


def _check_request(request: RunRequest) -> RunRequest:
    """Return the request; raise UsageError for a wrong name or time."""
    run_id, created_at = request.eval_run_id, request.created_at or read_source_date()
    if run_id is not None and not matches_pattern(EVAL_RUN_PATTERN, run_id):
        raise UsageError(f"--eval-run-id must match {EVAL_RUN_PATTERN}, got {run_id!r}")
    if created_at is not None and not is_moment(created_at):
        raise UsageError(f"--created-at must be a date and time with an offset, got {created_at!r}")
    return msgspec.structs.replace(request, created_at=created_at)


def _print_problems(done: RunOutcome) -> None:
    for warning in done.warnings:
        say(f"gatemark: warning: {warning}", err=True)
    for variant in done.variants:
        for failure in variant.failed:
            say(
                f"gatemark: {variant.variant_id} {failure['case_id']}: {failure['reason']}",
                err=True,
            )
        for case_id, count in variant.model_failures.items():
            say(
                f"gatemark: {variant.variant_id} {case_id}: {count} questions got no answer",
                err=True,
            )

    for caveat in done.caveats:
        say(f"gatemark: {caveat}", err=True)


def _render_run(done: RunOutcome) -> Iterator[str]:
    yield f"evaluation {done.eval_run_id} over {done.trace_dataset_hash}"
    for variant in done.variants:
        counts = variant.per_case_summary_counts.values()
        yield (
            f"{variant.variant_id}: {variant.succeeded} of {variant.total_cases} cases, "
            f"{sum(counts)} summaries, {len(variant.failed)} failed{_render_unread(variant)}"
        )
    yield f"written to {done.output}"


def _render_unread(variant: VariantSummary) -> str:
    count = sum(variant.unparsable_answers.values())
    return f", {count} of {variant.questions} answers unreadable" if count else ""
