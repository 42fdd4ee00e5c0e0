"""``gatemark attribute``: find the step that made a decision go wrong."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from gatemark.cli.options import OptionGroup, StrictCommand, actor_option, store_option
from gatemark.cli.screen import Outputs, output_options
from gatemark.core.canonical import json_file
from gatemark.core.errors import ExitCode, UsageError
from gatemark.release.attribution.attribute import AttributeRequest, attribute
from gatemark.release.attribution.decision import DecisionJudgement
from gatemark.release.attribution.views import render_attribution_page, render_attribution_text
from gatemark.workspace import Workspace

DEFAULT_PLAN = "replay.yaml"


def _make_judgement(reviewer: str | None, expected: str | None) -> DecisionJudgement | None:
    if reviewer is None:
        if expected is not None:
            raise UsageError("--expected needs --judged-by: name the reviewer")
        return None
    given: dict[str, object] = {"verdict": "wrong", "reviewer": reviewer}
    if expected is not None:
        given["expected"] = _decode_value(expected)
    try:
        return msgspec.convert(given, DecisionJudgement)
    except msgspec.ValidationError as error:
        raise UsageError(f"--judged-by: {error}") from error


def _decode_value(text: str) -> object:
    """Decode a value written as JSON; return anything else as text."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


judgement_options = OptionGroup(
    _make_judgement,
    reviewer=click.option(
        "--judged-by",
        metavar="NAME",
        help="Reviewer who found the decision wrong, if the file does not say.",
    ),
    expected=click.option(
        "--expected", metavar="TEXT", help="Expected output, as JSON or plain text."
    ),
)


@click.command("attribute", cls=StrictCommand)
@click.argument("decision")
@click.option(
    "--id",
    "--decision-id",
    "decision_id",
    envvar="GATEMARK_ATTRIBUTE_ID",
    metavar="ID",
    help="Id of the decision, for a file with several.",
)
@judgement_options
@click.option(
    "--replay",
    is_flag=True,
    help=f"Replay steps with the {DEFAULT_PLAN} in the folder of DECISION.",
)
@click.option("--replay-plan", metavar="FILE", help="Plan for replaying steps.")
@click.option(
    "--runs",
    "--other-decisions",
    multiple=True,
    metavar="FILE",
    help="Other decisions, right and wrong. Repeatable.",
)
@click.option("--rules", multiple=True, metavar="FILE", help="Current rule pack. Repeatable.")
@click.option("--seal", is_flag=True, help="Store the attribution and record it in the ledger.")
@actor_option
@store_option
@output_options(".json", ".html")
def attribute_command(
    outputs: Outputs,
    judgement: DecisionJudgement | None,
    *,
    decision: str,
    decision_id: str | None,
    replay: bool,
    replay_plan: str | None,
    runs: tuple[str, ...],
    rules: tuple[str, ...],
    seal: bool,
    actor: str | None,
    store: str,
) -> int:
    """Find the step that made a wrong decision go wrong.

    DECISION is a gatemark.decision/1 document that a reviewer judged wrong; 'gatemark import --to
    decisions' writes such documents from traces and chat logs. The report names the step, the model
    lineage, the prompt revision and the snapshot, and says whether the verifier should have caught
    the mistake. People judge the proposals of a sealed attribution with 'gatemark review
    attribution'. Exit 0 if a step is named, 3 if the evidence points to none, 2 for bad input.

    \b
    Examples:
      gatemark attribute decision.json --runs others.jsonl --rules rules.yaml
      gatemark attribute decision.json --replay --seal -o why.html
      gatemark attribute decisions.jsonl --id 5b8efff7 --judged-by dana --expected "It costs 5."
    """
    found = attribute(
        Workspace(store=store, actor=actor),
        AttributeRequest(
            decision=decision,
            id=decision_id,
            judgement=judgement,
            runs=runs,
            rules=rules,
            replay=_plan_beside(decision) if replay and replay_plan is None else replay_plan,
            seal=seal,
        ),
    ).attribution
    outputs.write(
        {".json": lambda: json_file(found), ".html": lambda: render_attribution_page(found)}
    )
    outputs.show(found, render_attribution_text)
    return ExitCode.PASS if found.cause is not None else ExitCode.INCONCLUSIVE


def _plan_beside(decision: str) -> str:
    beside = Path(decision).parent / DEFAULT_PLAN
    if not beside.exists():
        raise UsageError(f"--replay found no {beside}; name another file with --replay-plan")
    return str(beside)
