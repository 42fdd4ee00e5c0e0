"""``gatemark release``: take a version as far as it may go, and say who must do what next."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import redirect_stdout

import click

from gatemark.cli.call_progress import show_call_progress
from gatemark.cli.options import StrictCommand
from gatemark.cli.screen import show
from gatemark.core.errors import ExitCode, UsageError
from gatemark.core.result import AssetRef
from gatemark.packs.run_choices import RunChoices
from gatemark.packs.run_pack import run_pack
from gatemark.release.cli.options import (
    Acting,
    acting_options,
    anchor,
    dry_run_option,
    environment_option,
)
from gatemark.release.lifecycle.model.nouns import VersionRef, parse_version_ref
from gatemark.release.lifecycle.release import ReleaseProgress, ReleaseRequest, release
from gatemark.release.lifecycle.state_cache import read_state
from gatemark.workspace import Workspace


@click.command("release", cls=StrictCommand)
@click.argument("version", metavar="ASSET@VERSION")
@click.option(
    "--approve",
    is_flag=True,
    help="Approve the next step that needs it, and take the step. Needs --note.",
)
@click.option(
    "--run",
    is_flag=True,
    help="Run the required pack of the asset where a result is missing. You vouch that its "
    "candidate is this version, and its baseline the live one.",
)
@environment_option
@dry_run_option
@acting_options
def release_command(
    acting: Acting, *, version: str, approve: bool, run: bool, environment: str, dry_run: bool
) -> int:
    """Take a version as far as it may go now.

    Every step is an ordinary promotion: evaluating, eligible, shadow, canary, enabled. Matching
    results are cited. It stops where something is missing, and says what, and who can continue.
    Exit 0 if it moved or is enabled, 1 if it could not move.

    \b
    Examples:
      gatemark release triage@2.1.0 --run
      gatemark release triage@2.1.0 --approve --note "read the result" --actor bob
      gatemark release triage@2.1.0 --dry-run
    """
    ref = parse_version_ref(version)
    workspace = acting.workspace()
    request = ReleaseRequest(
        ref=ref,
        actor=workspace.actor,
        environment=environment,
        note=acting.note,
        approve=approve,
        run=(lambda names: _run(workspace, ref, names)) if run else None,
        dry_run=dry_run,
    )
    progress = release(workspace, request)
    show(progress, _format_lines, json=acting.json)
    if progress.done and not dry_run:
        anchor(workspace)
    is_further = bool(progress.done) or progress.stage == "enabled"
    return ExitCode.PASS if is_further else ExitCode.FAIL


def _run(workspace: Workspace, ref: VersionRef, names: dict[str, AssetRef]) -> None:
    file = read_state(workspace, ref.asset).asset.required_pack_file
    if file is None:
        raise UsageError(
            f"{ref.asset} has no pack file; set it: gatemark asset pack {ref.asset} FILE"
        )
    with show_call_progress() as progress, redirect_stdout(sys.stderr):
        run_pack(workspace, file, RunChoices(names=names), on_progress=progress)


def _format_lines(progress: ReleaseProgress) -> Iterator[str]:
    ref = f"{progress.asset}@{progress.version}"
    for line in progress.done:
        yield f"{'would do' if progress.is_dry_run else 'done'}: {line}"
    yield f"{ref} is {progress.stage} in {progress.environment}"
    if progress.next_stage is not None and progress.missing:
        yield f"missing for {progress.next_stage}:"
        for line in progress.missing:
            yield f"  {line}"
    if progress.next_command is not None:
        people = (
            ", ".join(progress.next_by) or "nobody yet: grant the role with gatemark role grant"
        )
        yield f"next: {people}: {progress.next_command}"
