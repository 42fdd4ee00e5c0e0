"""``gatemark score``: one subcommand per exam, built from its declaration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from gatemark.checks.score import (
    ReportFile,
    ScoreReport,
    ScoreRequest,
    ScoreVerb,
    find_verb,
    list_verbs,
)
from gatemark.cli.options import (
    StrictCommand,
    actor_option,
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
from gatemark.cli.screen import byte_progress, print_json, wants_color
from gatemark.cli.struct_options import Decorator, struct_options
from gatemark.core.canonical import json_file
from gatemark.core.errors import ExitCode
from gatemark.core.policy import EXIT_BY_OUTCOME
from gatemark.evidence.exam_suite import EvidenceRole
from gatemark.evidence.reading_choices import ReadingChoices, parse_reading_options
from gatemark.report.outputs import (
    check_extensions,
    check_formats,
    write_attachments,
    write_documents,
    write_reports,
)
from gatemark.workspace import Workspace


class NamedFile(click.ParamType[tuple[str, str]]):
    """A name and a file, as NAME=FILE. Names of other options are refused."""

    name = "NAME=FILE"

    def __init__(self, taken: frozenset[str]) -> None:
        self._taken = taken

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        name, found, path = str(value).partition("=")
        if not (found and name and path):
            self.fail(f"expected NAME=FILE, got {value!r}", param, ctx)
        if name in self._taken:
            self.fail(f"{name} has its own option", param, ctx)
        return name, path


def file_parameters(roles: Sequence[EvidenceRole]) -> Iterator[Decorator]:
    """Yield an argument or an option per role."""
    taken = frozenset(role.name for role in roles if not role.named)
    for role in roles:
        if role.positional:
            many = role.many
            yield click.argument(
                role.name,
                nargs=-1 if many else 1,
                required=True,
                metavar="FILE..." if many else "FILE",
            )
        elif role.named:
            yield click.option(
                f"--{role.name}", multiple=True, type=NamedFile(taken), help=role.help
            )
        else:
            yield click.option(f"--{role.name}", multiple=role.many, metavar="FILE", help=role.help)


def list_given_files(
    roles: Sequence[EvidenceRole], given: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """Return every file that was given, with its role or its own name."""
    files: list[tuple[str, str]] = []
    for role in roles:
        value = given[role.name]
        if role.named:
            names = [name for name, _ in value]
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise click.UsageError(f"two {role.name}s are called {twice[0]!r}")
            files.extend(value)
        elif role.many:
            files.extend((role.name, path) for path in value)
        elif value is not None:
            files.append((role.name, value))
    return files


class ScoreGroup(click.Group):
    """A group whose commands are the exams; each is imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(list_verbs())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        verb = find_verb(cmd_name)
        return None if verb is None else score_command_of(verb)


@click.group("score", cls=ScoreGroup)
def score_command() -> None:
    """Score evidence and judge it, without a store."""


def score_command_of(verb: ScoreVerb) -> click.Command:
    """Return the command of one exam."""
    function: Any = partial(_run, verb)
    for decorator in reversed([*_list_decorators(verb)]):
        function = decorator(function)
    text = f"{verb.summary}\n\n{verb.help}".strip()
    return click.command(verb.name, cls=StrictCommand, help=text)(function)


def _list_decorators(verb: ScoreVerb) -> list[Decorator]:
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
            click.option("--seal", is_flag=True, help="Store the result and its evidence."),
        ),
        (
            "cache" in has,
            click.option(
                "--cache/--no-cache",
                "--cache-facts/--no-cache-facts",
                default=True,
                help="Store the facts of large files, and score from them next time.",
            ),
        ),
        ("seal" in has, click.option("--title", help="Title of the result.")),
        ("jobs" in has, jobs_option),
        ("engine" in has, engine_option),
        ("seal" in has, actor_option),
        ("seal" in has, store_option),
        (True, json_option),
        ("seal" in has, output_option),
        ("seal" not in has, document_option),
    ]
    return [decorator for wanted, decorator in yes if wanted]


def report_file_option(file: ReportFile) -> Decorator:
    """Return the option that names the file of a further report."""
    return click.option(f"--{file.name}", metavar="FILE", help=file.help)


def _run(verb: ScoreVerb, /, **given: Any) -> int:
    files = list_given_files(verb.roles, given)
    out, output = given.get("out"), given["output"]
    places = {file: given[file.name] for file in verb.report_files if given[file.name]}
    if output or out or places:
        inputs = [*(path for _, path in files), given.get("waivers"), given.get("expected_ids")]
        if "seal" in verb.features:
            check_formats(output, inputs=inputs, folder=out)
        else:
            check_extensions(output, (".json",))
        check_extensions([*places.values()], (".json",))
    fields = verb.parameters.__struct_fields__
    waivers = read_waivers(given.get("waivers"))
    with byte_progress("scoring") as progress:
        report = verb.score(
            _open_workspace(given),
            ScoreRequest(
                files=files,
                parameters=verb.parameters(**{n: given[n] for n in fields if n in given}),
                reading=_make_reading_choices(verb, given),
                expected_ids=given.get("expected_ids"),
                waivers=waivers,
                seal=given.get("seal", False),
                title=given.get("title"),
                cache=given.get("cache", False),
                on_progress=progress,
            ),
        )
    if report.result is None and output:
        write_documents(output, {".json": partial(json_file, report.document)})
    elif report.result is not None and (output or out):
        write_reports(
            report.result, output, summary=report.document, folder=out, attachments=report.files
        )
    return show_report(report, places, as_json=given["json"])


def show_report(report: ScoreReport, places: dict[ReportFile, str], *, as_json: bool) -> int:
    """Write the further reports, print the document or its text; return the exit code."""
    for file, place in places.items():
        target = Path(place)
        write_attachments(str(target.parent), {target.name: file.render(report.document)})
    if as_json:
        print_json(report.document)
    else:
        click.echo(report.text(wants_color()))
    return ExitCode.PASS if report.verdict is None else EXIT_BY_OUTCOME[report.verdict]


def _open_workspace(given: dict[str, Any]) -> Workspace:
    known = {name: given[name] for name in ("store", "jobs", "engine", "actor") if given.get(name)}
    return Workspace(**known)


def _make_reading_choices(verb: ScoreVerb, given: dict[str, Any]) -> ReadingChoices:
    if "reading" in verb.features:
        return parse_reading_options(given)
    return ReadingChoices(max_errors=given["max_errors"])
