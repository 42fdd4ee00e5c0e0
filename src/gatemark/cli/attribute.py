"""``gatemark attribute``: which step made a decision go wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from gatemark.cli.options import json_option, store_option
from gatemark.cli.screen import print_json
from gatemark.core.errors import UsageError
from gatemark.core.exits import ExitCode
from gatemark.flow.attribute import AttributeRequest, attribute
from gatemark.flow.house import House
from gatemark.flow.outputs import check_extensions, write_documents
from gatemark.report.attribution_report import html, text

DEFAULT_PLAN = "replay.yaml"
FORMATS = (".json", ".html")


@click.command("attribute")
@click.argument("decision")
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

    DECISION is a gatemark.decision/1 document that a reviewer judged wrong. Answers which step,
    which model lineage, which prompt revision and snapshot, and whether the verifier should have
    caught it. Exit 0 when a cause is shown, 3 when nothing speaks against any step, 2 bad input.

    \b
    Examples:
      gatemark attribute decision.json --runs others.jsonl --rules rules.yaml
      gatemark attribute decision.json --replay --seal -o why.html
    """
    check_extensions(flags["output"], FORMATS)
    found = attribute(
        House(store=flags["store"], actor=flags["actor"]),
        AttributeRequest(
            decision=flags["decision"],
            runs=flags["runs"],
            rules=flags["rules"],
            replay=_plan(flags),
            seal=flags["seal"],
        ),
    ).attribution
    write_documents(
        flags["output"],
        {
            ".json": lambda: msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n",
            ".html": lambda: html(found),
        },
    )
    if flags["json"]:
        print_json(found)
    else:
        click.echo(text(found))
    return ExitCode.PASS if found.cause is not None else ExitCode.INCONCLUSIVE


def _plan(flags: dict[str, Any]) -> str | None:
    if flags["replay_plan"] is not None:
        return str(flags["replay_plan"])
    if not flags["replay"]:
        return None
    beside = Path(flags["decision"]).parent / DEFAULT_PLAN
    if not beside.exists():
        raise UsageError(f"--replay looks for {beside}; name another file with --replay-plan")
    return str(beside)
