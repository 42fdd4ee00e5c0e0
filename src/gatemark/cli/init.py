"""``gatemark init``: write a working pack as a starting point."""

from __future__ import annotations

from pathlib import Path

import click

from gatemark.ci.workflows import CI_SERVICES, CiService, write_workflow
from gatemark.cli.options import StrictCommand
from gatemark.cli.screen import say
from gatemark.packs.init import FAULTY_FILE, SOUND_LINE, write_starter


@click.command("init", cls=StrictCommand)
@click.argument("folder", required=False, default=".")
@click.option(
    "--ci",
    type=click.Choice(CI_SERVICES),
    help="CI service to write a workflow file for, in this folder.",
)
@click.option(
    "--from",
    "source",
    nargs=2,
    type=(click.Choice(["promptfoo", "inspect"]), str),
    metavar="TOOL FILE",
    help="Pack to make from an existing promptfoo config or Inspect log.",
)
def init_command(folder: str, ci: CiService | None, source: tuple[str, str] | None) -> None:
    """Write a pack to try, with its data and a CI snippet.

    The candidate of the pack fails on purpose, and the last lines say how to fix it. Existing files
    are never overwritten. With --ci, a folder that has a pack.yaml keeps it, and only the workflow
    file is written.

    With --from, the pack is made from prompts, providers, tests and assertions of promptfoo, or
    from the samples, model and scorers of an Inspect log. What cannot be converted is listed, here
    and at the top of the pack.

    \b
    Examples:
      gatemark init evals
      gatemark init evals --ci github
      gatemark init evals --from promptfoo promptfooconfig.yaml
      gatemark init evals --from inspect logs/task.eval
    """
    pack = Path(folder) / "pack.yaml"
    if source is not None:
        written, notes = _convert_config(*source, Path(folder))
    elif ci is None or not pack.exists():
        written, notes = (
            [*write_starter(Path(folder), planted_fault=True)],
            _format_first_steps(pack),
        )
    else:
        written, notes = [], (f"try: gatemark run {pack}",)
    if ci is not None:
        written.append(write_workflow(ci, pack.as_posix(), Path()))
    for path in written:
        say(path)
    for line in notes:
        say(line, err=True)


def _convert_config(tool: str, file: str, folder: Path) -> tuple[list[Path], tuple[str, ...]]:
    from gatemark.packs.convert.conversion import write_conversion  # noqa: PLC0415 - few need it

    if tool == "promptfoo":
        from gatemark.packs.convert.promptfoo import convert_config as convert  # noqa: PLC0415
    else:
        from gatemark.packs.convert.inspect import convert_log as convert  # noqa: PLC0415
    made = convert(file)
    written = [*write_conversion(made, folder)]
    pack = folder / "pack.yaml"
    return written, (
        "",
        *made.converted,
        *(f"not converted: {line}" for line in made.left_out),
        "",
        f"1. Check it: gatemark lint {pack}",
        f"2. Try it on a few items: gatemark run {pack} --limit 5",
    )


def _format_first_steps(pack: Path) -> tuple[str, ...]:
    return (
        "",
        f"1. See it fail: gatemark run {pack}",
        f"   The candidate, version 2 in {pack.with_name(FAULTY_FILE)}, has forgotten refunds.",
        f"2. Make it pass: in {pack.with_name(FAULTY_FILE)}, change the line to",
        f"     {SOUND_LINE}",
        "   and run it again.",
        f"3. Put your own data, targets and rules into {pack}.",
    )
