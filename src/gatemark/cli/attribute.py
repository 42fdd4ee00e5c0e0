"""``gatemark attribute``: which step made a decision go wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from gatemark.attribution.decision import DecisionJudgement
from gatemark.attribution.journey import AttributeRequest, attribute
from gatemark.attribution.views import html, text
from gatemark.cli.options import json_option, store_option
from gatemark.cli.screen import print_json
from gatemark.core.canonical import json_file
from gatemark.core.errors import ExitCode, UsageError
from gatemark.report.outputs import check_extensions, write_documents
from gatemark.workspace import Workspace

DEFAULT_PLAN = "replay.yaml"
FORMATS = (".json", ".html")


@click.command("attribute")
@click.argument("decision")
@click.option("--id", metavar="ID", help="Which decision of a file that holds several.")
@click.option("--judged-by", metavar="NAME", help="Who found the decision wrong, if not in it yet.")
@click.option("--expected", metavar="TEXT", help="What should have come out; JSON or plain text.")
@click.option("--replay", is_flag=True, help=f"Run steps again, as {DEFAULT_PLAN} beside it says.")
@click.option("--replay-plan", metavar="FILE", help="Run steps again, as this file says.")
@click.option(
    "--runs", multiple=True, metavar="FILE", help="Other decisions, right and wrong; repeatable."
)
@click.option("--rules", multiple=True, metavar="FILE", help="A rule pack of today; repeatable.")
@click.option("--seal", is_flag=True, help="Keep the attribution and say so in the ledger.")
@click.option("--actor", metavar="NAME", envvar="GATEMARK_ACTOR", help="Who asks.")
@store_option
@json_option
@click.option("-o", "--output", multiple=True, metavar="FILE", help="Also write .json or .html.")
def attribute_command(**flags: Any) -> int:
    """Find the step that made a wrong decision go wrong.

    DECISION is a gatemark.decision/1 document that a reviewer judged wrong; 'gatemark import --to
    decisions' makes some of traces. Answers which step, which model lineage, which prompt revision
    and snapshot, and whether the verifier should have caught it. What a sealed attribution
    proposes is judged with 'gatemark review attribution'. Exit 0 when a cause is shown, 3 when
    nothing speaks against any step, 2 bad input.

    \b
    Examples:
      gatemark attribute decision.json --runs others.jsonl --rules rules.yaml
      gatemark attribute decision.json --replay --seal -o why.html
      gatemark attribute decisions.jsonl --id 5b8efff7 --judged-by dana --expected "It costs 5."
    """
    check_extensions(flags["output"], FORMATS)
    found = attribute(
        Workspace(store=flags["store"], actor=flags["actor"]),
        AttributeRequest(
            decision=flags["decision"],
            id=flags["id"],
            judgement=_judgement(flags),
            runs=flags["runs"],
            rules=flags["rules"],
            replay=_plan(flags),
            seal=flags["seal"],
        ),
    ).attribution
    write_documents(
        flags["output"],
        {
            ".json": lambda: json_file(found),
            ".html": lambda: html(found),
        },
    )
    if flags["json"]:
        print_json(found)
    else:
        click.echo(text(found))
    return ExitCode.PASS if found.cause is not None else ExitCode.INCONCLUSIVE


def _judgement(flags: dict[str, Any]) -> DecisionJudgement | None:
    who, expected = flags["judged_by"], flags["expected"]
    if who is None:
        if expected is not None:
            raise UsageError("--expected needs --judged-by: who says so?")
        return None
    given: dict[str, Any] = {"verdict": "wrong", "reviewer": who}
    if expected is not None:
        given["expected"] = _value(expected)
    try:
        return msgspec.convert(given, DecisionJudgement)
    except msgspec.ValidationError as error:
        raise UsageError(f"--judged-by: {error}") from error


def _value(text: str) -> Any:
    """A value that is written as JSON; anything else is the text itself."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _plan(flags: dict[str, Any]) -> str | None:
    if flags["replay_plan"] is not None:
        return str(flags["replay_plan"])
    if not flags["replay"]:
        return None
    beside = Path(flags["decision"]).parent / DEFAULT_PLAN
    if not beside.exists():
        raise UsageError(f"--replay looks for {beside}; name another file with --replay-plan")
    return str(beside)
