"""``gatemark run`` and ``gatemark gate``: run a pack, or judge recorded evidence by one."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from gatemark.cli.call_progress import show_call_progress
from gatemark.cli.options import (
    MomentParam,
    OptionGroup,
    StrictCommand,
    actor_option,
    engine_option,
    read_waivers,
    store_option,
)
from gatemark.cli.screen import Reports, report_options, say, show
from gatemark.cli.struct_options import request_option
from gatemark.core.policy import EXIT_BY_OUTCOME, Waiver
from gatemark.core.request_fields import require_field
from gatemark.core.result import AssetRef
from gatemark.packs.answering import OnProgress
from gatemark.packs.gate import gate_result
from gatemark.packs.pack_file import has_matrix
from gatemark.packs.registered_versions import find_registered_version
from gatemark.packs.run_choices import RunChoices, StartRun
from gatemark.packs.run_pack import run_pack
from gatemark.report.outputs import write_documents
from gatemark.workspace import EngineName, Workspace

if TYPE_CHECKING:
    from gatemark.packs.matrix import MatrixRun


def _read_waivers(file: str | None) -> Sequence[Waiver]:
    return read_waivers(file) if file else ()


waiver_options = OptionGroup(
    _read_waivers, file=click.option("--waivers", metavar="FILE", help="YAML list of waivers.")
)


@click.command("run", cls=StrictCommand)
@click.argument("pack")
@click.option("--candidate", metavar="SAMPLES", help="Recorded samples to judge as the candidate.")
@click.option(
    "--baseline",
    metavar="SAMPLES|RESULT|NAME",
    help="Recorded samples, the id of a sealed result, last-pass, git:REF, or a name that "
    "'gatemark baseline set' gave.",
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1, 10_000),
    default=1,
    help="Maximum number of calls at once.",
)
@engine_option
@click.option("--resume", is_flag=True, help="Continue an interrupted run of this pack.")
@click.option(
    "--cache",
    is_flag=True,
    help="Cache replies, and reuse those of earlier runs with the same calls.",
)
@request_option(require_field(StartRun, "limit"))
@click.option(
    "--cell",
    "cells",
    multiple=True,
    metavar="NAME",
    help="Candidate of the pack's matrix to run, such as short/small (default: all). Repeatable.",
)
@click.option(
    "--need",
    type=click.Choice(["all", "any"]),
    default="all",
    help="Candidates of a matrix that must pass for exit code 0.",
)
@waiver_options
@click.option(
    "--as",
    "as_version",
    metavar="ASSET@VERSION",
    help="Registered version of the candidate; you vouch for it, and the result names it.",
)
@click.option(
    "--answered-at",
    type=MomentParam(),
    help="Time at which recorded answers or evidence files were made, if they do not say. "
    "The result names you as the source.",
)
@click.option(
    "--against",
    metavar="ASSET@VERSION",
    help="Registered version of the baseline; you vouch for it.",
)
@actor_option
@store_option
@report_options
def run_command(
    reports: Reports,
    waivers: Sequence[Waiver],
    *,
    pack: str,
    candidate: str | None,
    baseline: str | None,
    jobs: int,
    engine: EngineName,
    resume: bool,
    cache: bool,
    limit: int | None,
    cells: tuple[str, ...],
    need: Literal["all", "any"],
    as_version: str | None,
    against: str | None,
    answered_at: datetime | None,
    actor: str | None,
    store: str,
) -> int:
    """Run a pack: answer, score, judge, seal.

    Both arms answer every item; errors are counted. Exit 0 pass, 1 fail, 2 bad input, 3 could not
    be judged. Ctrl-C seals nothing; continue with --resume.

    A pack with a matrix has several candidates: each gets its own result, and one table shows them
    all. Exit 0 if all of them pass (--need any: at least one).

    \b
    Examples:
      gatemark run packs/support-triage.yaml -j 8 -o report.html
      gatemark run packs/support-triage.yaml --resume
      gatemark run packs/support-triage.yaml --baseline last-pass
      gatemark run packs/prompts-and-models.yaml --need any -o matrix.html
    """
    workspace = Workspace(store=store, engine=engine, actor=actor)
    choices = RunChoices(
        jobs=jobs,
        resume=resume,
        cache=cache,
        limit=limit,
        candidate=None if candidate is None else _make_recorded_target(candidate),
        baseline=_parse_baseline(baseline),
        names=_find_versions(workspace, candidate=as_version, baseline=against),
        answered_at=answered_at,
        waivers=tuple(waivers),
    )
    if cells or has_matrix(pack):
        # Imported late: few packs have several candidates.
        from gatemark.packs.matrix import run_matrix  # noqa: PLC0415

        with _show_calls() as progress:
            matrix = run_matrix(
                workspace,
                pack,
                choices,
                only=cells,
                need=need,
                on_progress=progress,
                on_notice=_print_notice,
            )
        return _show_matrix(reports, matrix)
    with _show_calls() as progress:
        result = run_pack(workspace, pack, choices, on_progress=progress, on_notice=_print_notice)
    return reports.show(result)


@contextmanager
def _show_calls() -> Iterator[OnProgress]:
    # Keep the prints of a Python target out of the JSON document on standard output.
    with show_call_progress() as progress, redirect_stdout(sys.stderr):
        yield progress


def _print_notice(notice: str) -> None:
    say(f"gatemark: {notice}", err=True)


def _show_matrix(reports: Reports, ran: MatrixRun) -> int:
    """Write and print a matrix; return the exit code of its verdict."""
    from gatemark.packs.matrix_report import list_renderers, make_matrix_report, render_text  # noqa: PLC0415

    report = make_matrix_report(ran)
    write_documents(reports.files, list_renderers(report))
    show(report, render_text, json=reports.json)
    return EXIT_BY_OUTCOME[report.verdict]


@click.command("gate", cls=StrictCommand)
@click.argument("reference", metavar="RESULT")
@click.option("--pack", required=True, help="Pack to judge by.")
@waiver_options
@actor_option
@store_option
@report_options
def gate_command(
    reports: Reports,
    waivers: Sequence[Waiver],
    *,
    reference: str,
    pack: str,
    actor: str | None,
    store: str,
) -> int:
    """Judge recorded evidence again with a pack, without calling a target.

    The answers keep their age: a promotion that needs fresh ones needs 'gatemark run'.

    The pack may differ from the pack of RESULT in rules, weights, floors and scorers, but not in
    its data: other data cannot be compared (exit 3).

    \b
    Example:
      gatemark gate 3f2a9c01 --pack packs/stricter.yaml
    """
    workspace = Workspace(store=store, actor=actor)
    return reports.show(gate_result(workspace, reference, pack, waivers=waivers))


def _find_versions(workspace: Workspace, **versions: str | None) -> dict[str, AssetRef]:
    """Return the registered versions that the user vouches for, by arm."""
    given = {arm: text for arm, text in versions.items() if text is not None}
    if not given:
        return {}
    workspace.existing_store()
    return {arm: find_registered_version(workspace, text) for arm, text in given.items()}


def _parse_baseline(text: str | None) -> dict[str, str] | str | None:
    """Return a target for an existing file; anything else names a sealed result."""
    if text is None or text.startswith("sha256:") or not Path(text).exists():
        return text
    return _make_recorded_target(text)


def _make_recorded_target(path: str) -> dict[str, str]:
    """Return a target that answers from a file, relative to the current folder."""
    return {"recorded": str(Path(path).resolve())}
