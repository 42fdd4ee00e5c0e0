"""``gatemark run`` and ``gatemark gate``: run a pack, or judge recorded evidence by one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

import click

from gatemark.cli.call_progress import call_progress
from gatemark.cli.options import (
    OptionGroup,
    actor_option,
    engine_option,
    read_waivers,
    store_option,
)
from gatemark.cli.outputs import Reports, report_options
from gatemark.cli.screen import say
from gatemark.core.policy import Waiver
from gatemark.core.result import AssetRef
from gatemark.lifecycle.model.nouns import parse_version_ref
from gatemark.packs.run import RunChoices, rejudge, run_pack
from gatemark.workspace import EngineName, Workspace


def _waivers(file: str | None) -> Sequence[Waiver]:
    return read_waivers(file) if file else ()


waiver_options = OptionGroup(
    _waivers, file=click.option("--waivers", metavar="FILE", help="YAML list of waivers.")
)


@click.command("run")
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
    show_default=True,
    help="Maximum number of calls at once.",
)
@engine_option
@click.option("--resume", is_flag=True, help="Continue an interrupted run of this pack.")
@click.option(
    "--cache",
    is_flag=True,
    help="Cache replies, and reuse those of earlier runs with the same calls.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    help="Maximum number of items per suite; a limited run never passes.",
)
@waiver_options
@click.option(
    "--as",
    "as_version",
    metavar="ASSET@VERSION",
    help="Registered version that you vouch the candidate is; the result names it.",
)
@click.option(
    "--against", metavar="ASSET@VERSION", help="Registered version that you vouch the baseline is."
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
    as_version: str | None,
    against: str | None,
    actor: str | None,
    store: str,
) -> int:
    """Run a pack: answer, score, judge, seal.

    Both arms answer every item; errors stay in the count. Exit 0 pass, 1 fail, 2 bad input,
    3 could not be judged. Stopping with Ctrl-C seals nothing; --resume goes on.

    \b
    Examples:
      gatemark run packs/support-triage.yaml -j 8 -o report.html
      gatemark run packs/support-triage.yaml --resume
      gatemark run packs/support-triage.yaml --baseline last-pass
    """
    workspace = Workspace(store=store, engine=engine, actor=actor)
    choices = RunChoices(
        jobs=jobs,
        resume=resume,
        cache=cache,
        limit=limit,
        candidate=None if candidate is None else _recorded(candidate),
        baseline=_baseline(baseline),
        names=_names(workspace, candidate=as_version, baseline=against),
    )
    # What a Python target prints must not get between a script and the JSON document.
    with call_progress() as progress, redirect_stdout(sys.stderr):
        result = run_pack(
            workspace,
            pack,
            choices,
            waivers=waivers,
            on_progress=progress,
            on_notice=lambda notice: say(f"gatemark: {notice}", err=True),
        )
    return reports.show(result)


@click.command("gate")
@click.argument("reference", metavar="RESULT")
@click.option("--pack", required=True, help="Pack to judge by.")
@waiver_options
@store_option
@report_options
def gate_command(
    reports: Reports, waivers: Sequence[Waiver], *, reference: str, pack: str, store: str
) -> int:
    """Judge recorded evidence again by a pack; calls no target.

    The pack may differ from the one that made RESULT in rules, weights, floors and scorers, but
    not in its data: other data cannot be compared (exit 3).

    \b
    Example:
      gatemark gate 3f2a9c01 --pack packs/stricter.yaml
    """
    return reports.show(rejudge(Workspace(store=store), reference, pack, waivers=waivers))


def _names(workspace: Workspace, **versions: str | None) -> dict[str, AssetRef]:
    """Return the registered versions that the user vouches for, by arm."""
    given = {arm: text for arm, text in versions.items() if text is not None}
    if not given:
        return {}
    from gatemark.lifecycle.assets import version_ref  # noqa: PLC0415 - few runs need it

    workspace.existing_store()
    return {arm: version_ref(workspace, parse_version_ref(text)) for arm, text in given.items()}


def _baseline(text: str | None) -> dict[str, str] | str | None:
    """Return a target for a file that is there; anything else names a sealed result."""
    if text is None or text.startswith("sha256:") or not Path(text).exists():
        return text
    return _recorded(text)


def _recorded(path: str) -> dict[str, str]:
    """Return a target that answers from a file, relative to this folder and not to the pack."""
    return {"recorded": str(Path(path).resolve())}
