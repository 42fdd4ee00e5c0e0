"""``gatemark score``: one subcommand per exam, made from what the exam declares."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from gatemark.cli.options import (
    document_option,
    engine_option,
    jobs_option,
    json_option,
    max_errors_option,
    output_option,
    read_waivers,
    reading_options,
    store_option,
)
from gatemark.cli.score.parameters import Decorator, file_parameters, files_of, struct_options
from gatemark.cli.screen import byte_progress, print_json, wants_color
from gatemark.core.canonical import json_file
from gatemark.core.errors import ExitCode
from gatemark.core.policy import EXIT_BY_OUTCOME
from gatemark.evidence.reading_options import ReadingChoices, reading_choices
from gatemark.exams.score import (
    ReportFile,
    ScoreReport,
    ScoreRequest,
    ScoreVerb,
    find_verb,
    verb_names,
)
from gatemark.report.outputs import (
    check_extensions,
    check_formats,
    write_attachments,
    write_documents,
    write_reports,
)
from gatemark.workspace import Workspace


class ScoreGroup(click.Group):
    """A group whose commands are the exams; each is loaded only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(verb_names())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        verb = find_verb(cmd_name)
        return None if verb is None else score_command_of(verb)


@click.group("score", cls=ScoreGroup)
def score_command() -> None:
    """Score evidence and judge it, without a store."""


def score_command_of(verb: ScoreVerb) -> click.Command:
    """The command of one exam."""
    function: Any = partial(_run, verb)
    for decorator in reversed([*_decorators(verb)]):
        function = decorator(function)
    text = f"{verb.summary}\n\n{verb.help}".strip()
    return click.command(verb.name, help=text)(function)


def _decorators(verb: ScoreVerb) -> list[Decorator]:
    has = verb.features
    yes: list[tuple[bool, Decorator]] = [
        *((True, one) for one in file_parameters(verb.roles)),
        *((True, one) for one in struct_options(verb.parameters)),
        (
            "expected_ids" in has,
            click.option("--expected-ids", metavar="FILE", help="Pinned ids, one per line."),
        ),
        (
            "unpaired" in has,
            click.option(
                "--on-unpaired",
                type=click.Choice(["error", "exclude"]),
                default="error",
                show_default=True,
                help="What to do with an id that only one side has.",
            ),
        ),
        ("reading" in has, reading_options),
        ("reading" not in has, max_errors_option),
        (
            "waivers" in has,
            click.option("--waivers", metavar="FILE", help="YAML list of waivers."),
        ),
        (
            "out" in has,
            click.option("--out", metavar="DIR", help=f"Folder for {verb.writes}."),
        ),
        *((True, report_file_option(one)) for one in verb.report_files),
        (
            "seal" in has,
            click.option(
                "--seal", is_flag=True, help="Keep the result and its evidence in the store."
            ),
        ),
        (
            "cache" in has,
            click.option(
                "--cache/--no-cache",
                default=True,
                show_default=True,
                help="Keep the facts of large files in the store and score from them next time.",
            ),
        ),
        ("seal" in has, click.option("--title", help="Title of the result.")),
        ("jobs" in has, jobs_option),
        ("engine" in has, engine_option),
        ("seal" in has, store_option),
        (True, json_option),
        ("seal" in has, output_option),
        ("seal" not in has, document_option),
    ]
    return [decorator for wanted, decorator in yes if wanted]


def report_file_option(file: ReportFile) -> Decorator:
    """The option that names where a further report goes."""
    return click.option(f"--{file.name}", metavar="FILE", help=file.help)


def _run(verb: ScoreVerb, /, **given: Any) -> int:
    files = files_of(verb.roles, given)
    out, output = given.get("out"), given["output"]
    inputs = (*(path for _, path in files), given.get("waivers"), given.get("expected_ids"))
    if "seal" in verb.features:
        check_formats(output, inputs=inputs, folder=out)
    else:
        check_extensions(output, (".json",))
    for file in verb.report_files:
        check_extensions([given[file.name]] if given[file.name] else [], (".json",))
    fields = verb.parameters.__struct_fields__
    waivers = read_waivers(given.get("waivers"))
    with byte_progress("scoring") as progress:
        report = verb.score(
            _workspace(given),
            ScoreRequest(
                files=files,
                parameters=verb.parameters(**{n: given[n] for n in fields if n in given}),
                reading=_reading(verb, given),
                expected_ids=given.get("expected_ids"),
                waivers=waivers,
                seal=given.get("seal", False),
                title=given.get("title"),
                cache=given.get("cache", False),
                on_progress=progress,
            ),
        )
    if report.result is None:
        write_documents(output, {".json": partial(json_file, report.document)})
    else:
        write_reports(
            report.result, output, summary=report.document, folder=out, attachments=report.files
        )
    places = {file: given[file.name] for file in verb.report_files}
    return show_report(report, places, as_json=given["json"])


def show_report(report: ScoreReport, places: dict[ReportFile, str | None], *, as_json: bool) -> int:
    """Write the further reports that were asked for, print the rest, and say how it ended."""
    for file, place in places.items():
        if place is not None:
            target = Path(place)
            write_attachments(str(target.parent), {target.name: file.render(report.document)})
    if as_json:
        print_json(report.document)
    else:
        click.echo(report.text(wants_color()))
    return ExitCode.PASS if report.verdict is None else EXIT_BY_OUTCOME[report.verdict]


def _workspace(given: dict[str, Any]) -> Workspace:
    known = {name: given[name] for name in ("store", "jobs", "engine") if given.get(name)}
    return Workspace(**known)


def _reading(verb: ScoreVerb, given: dict[str, Any]) -> ReadingChoices:
    if "reading" in verb.features:
        return reading_choices(given)
    return ReadingChoices(max_errors=given["max_errors"])
