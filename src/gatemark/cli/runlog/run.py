"""``gatemark runlog run``: traces in, run logs out."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from gatemark.cli.options import json_option
from gatemark.cli.runlog.options import processes_option, source_date
from gatemark.cli.screen import count_progress, print_json
from gatemark.core.errors import ExitCode, UsageError
from gatemark.exams.runlog.records.fields import EVAL_RUN_PATTERN, fits, is_moment
from gatemark.exams.runlog.replay.models import model_choice
from gatemark.exams.runlog.replay.run import RunDone, RunRequest, run_cases
from gatemark.workspace import Workspace

MODEL_HELP = "rules, a recording (.jsonl), or the settings of a target (.yaml)."


@click.command("run")
@click.option("--traces", default="data/traces", show_default=True, help="Folder of traces.")
@click.option("--output", default="data/runs", show_default=True, help="Folder for the run logs.")
@click.option("--configs", metavar="DIR", help="V0.yaml to V4.yaml; shipped ones when left out.")
@click.option("--variant", "variants", multiple=True, help="Only this variant. Repeatable.")
@click.option("--case", default="", help="Only cases whose name holds this text.")
@click.option("--manifest", metavar="FILE", help="The manifest; found near the traces if unique.")
@click.option("--eval-run-id", help="Name of the evaluation; made from the hashes when left out.")
@click.option("--code-commit", default="unknown", show_default=True, help="Commit under test.")
@click.option("--created-at", metavar="TIME", help="Time for the logs; the traces' when left out.")
@click.option(
    "--compat",
    type=click.Choice(["gatemark", "source"]),
    help="Whose text join and timers to use; the configuration's when left out.",
)
@click.option(
    "--mode",
    type=click.Choice(["strict", "inspect"]),
    default="strict",
    show_default=True,
    help="Whether a trace with odd times or turns is refused or only warned about.",
)
@click.option("--allow-stub", is_flag=True, help="Replay stub traces too.")
@click.option("--model", default="rules", show_default=True, help=f"Who answers: {MODEL_HELP}")
@click.option("--buffer-model", help="Who answers for the buffer agent, if not --model.")
@click.option("--summarizer-model", help="Who answers for the summarizer, if not --model.")
@click.option("--record", metavar="FILE", help="Keep every answer for a later --model FILE.")
@click.option("--keep-inputs", is_flag=True, help="Write the summarizer's prompts into the logs.")
@click.option(
    "--extractor",
    metavar="NAME|FILE",
    help="The concept extractor that metrics will use, for run_meta to name it.",
)
@click.option("--stoplists", metavar="DIR", help="The stoplists that metrics will use with it.")
@click.option("--v3-report", metavar="FILE", help="Take V3's chunk size from this report.")
@click.option(
    "--allow-commit-mismatch", is_flag=True, help="Take a V3 report of other code than this."
)
@processes_option
@json_option
def run_command(**flags: Any) -> int:
    """Replay traces through variants and write their run logs.

    Writes DIR/V0/CASE.jsonl.gz and so on, and DIR/run_summaries. The manifest says which cases
    there are; one that cannot be replayed is listed with its reason, leaves no log, and makes the
    command end with 1. So does a language model that gives no answer. The same inputs give the
    same bytes, whatever -j says.

    \b
    Examples:
      gatemark runlog run --traces data/traces --variant V0 --variant V2
      gatemark runlog run --model endpoint.yaml --record answers.jsonl --case clinical
      gatemark runlog run --model answers.jsonl --compat source
    """
    done = _run(flags)
    for warning in done.warnings:
        click.echo(f"gatemark: warning: {warning}", err=True)
    for variant in done.variants:
        for failure in variant.failed:
            click.echo(
                f"gatemark: {variant.variant_id} {failure['case_id']}: {failure['reason']}",
                err=True,
            )
        for case_id, count in variant.model_failures.items():
            click.echo(
                f"gatemark: {variant.variant_id} {case_id}: {count} questions got no answer",
                err=True,
            )
    if flags["json"]:
        print_json(msgspec.to_builtins(done))
    else:
        _tell(done)
    failed = done.failed_count or done.model_failure_count
    return ExitCode.FAIL if failed else ExitCode.PASS


def _run(flags: dict[str, Any]) -> RunDone:
    run_id, created_at = flags["eval_run_id"], flags["created_at"] or source_date()
    if run_id is not None and not fits(EVAL_RUN_PATTERN, run_id):
        raise UsageError(f"--eval-run-id must match {EVAL_RUN_PATTERN}, got {run_id!r}")
    if created_at is not None and not is_moment(created_at):
        raise UsageError(f"--created-at must be a date and time with an offset, got {created_at!r}")
    model = flags["model"]
    request = RunRequest(
        traces=flags["traces"],
        output=flags["output"],
        configs=flags["configs"],
        variants=flags["variants"],
        case=flags["case"],
        manifest=flags["manifest"],
        eval_run_id=run_id,
        code_commit=flags["code_commit"],
        created_at=created_at,
        compat=flags["compat"],
        mode=flags["mode"],
        allow_stub=flags["allow_stub"],
        buffer_model=model_choice(flags["buffer_model"] or model),
        summarizer_model=model_choice(flags["summarizer_model"] or model),
        keep_inputs=flags["keep_inputs"],
        record=flags["record"],
        extractor=flags["extractor"],
        stoplists=flags["stoplists"],
        v3_report=flags["v3_report"],
        allow_commit_mismatch=flags["allow_commit_mismatch"],
    )
    with count_progress("cases") as progress:
        return run_cases(Workspace(jobs=flags["jobs"]).engine, request, progress)


def _tell(done: RunDone) -> None:
    click.echo(f"evaluation {done.eval_run_id} over {done.trace_dataset_hash}")
    for variant in done.variants:
        counts = variant.per_case_summary_counts.values()
        click.echo(
            f"{variant.variant_id}: {variant.succeeded} of {variant.total_cases} cases, "
            f"{sum(counts)} summaries, {len(variant.failed)} failed"
        )
    click.echo(f"written to {done.output}")
