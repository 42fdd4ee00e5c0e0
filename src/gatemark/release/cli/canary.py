"""``gatemark canary``: push measurements, judge windows, show canaries."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import click

from gatemark.cli.options import StrictGroup, json_option, now_option, store_option
from gatemark.cli.screen import say, show
from gatemark.release.cli.options import (
    Caller,
    anchor,
    caller_options,
    environment_option,
    show_acted,
)
from gatemark.release.lifecycle.act import run_due
from gatemark.release.lifecycle.assets import asset_names
from gatemark.release.lifecycle.canary import CanaryState, canary_state, push_windows
from gatemark.release.lifecycle.routing import assign
from gatemark.workspace import Workspace


@click.group("canary", cls=StrictGroup)
def canary_command() -> None:
    """Push, judge and show measurements of running canaries."""


@canary_command.command("push")
@click.argument("asset")
@click.argument("file")
@environment_option
@caller_options
def push_canary_command(caller: Caller, *, asset: str, file: str, environment: str) -> None:
    """Push measurements per arm and window (gatemark.canary/1, JSON Lines).

    Pushing a window again changes nothing. Different numbers for it, or a window that was already
    judged, are refused together with the whole file.

    \b
    Example:
      gatemark canary push triage windows.jsonl --actor eval-bot
    """
    workspace = caller.workspace()
    done = push_windows(workspace, asset, file, actor=workspace.actor, environment=environment)
    show_acted(*done, unchanged="all of this was already pushed", json=caller.json)


@canary_command.command("tick")
@click.argument("asset", required=False)
@now_option
@environment_option
@store_option
@json_option
def tick_canary_command(
    asset: str | None, now: datetime | None, environment: str, store: str, json: bool
) -> None:
    """Run what is due: judge closed windows, ramp, pause, roll back, end a watch.

    Acts as the system, for one asset or all. Run it from cron as often as windows close; it never
    repeats a step. With --now, it does what is due at that time and records that time: one in the
    future blocks every step up of the asset until then.

    \b
    Example:
      gatemark canary tick
    """
    workspace = Workspace(store=store) if now is None else Workspace(store=store, clock=lambda: now)
    workspace.existing_store()
    names = [asset] if asset is not None else list(asset_names(workspace))
    done = [result for name in names for result in run_due(workspace, name, environment)]
    show_acted(*done, unchanged="nothing is due", json=json)
    if done and now is None:
        anchor(workspace)
    if done and now is not None and now > datetime.now(UTC):
        moment = f"{now:%Y-%m-%d %H:%M:%SZ}"
        say(f"dated {moment}, which is in the future: nothing steps up until then", err=True)


@canary_command.command("show")
@click.argument("asset")
@environment_option
@store_option
@json_option
def show_canary(asset: str, environment: str, store: str, json: bool) -> None:
    """Show the state of a running canary or watch.

    \b
    Example:
      gatemark canary show triage
    """
    state = canary_state(Workspace(store=store), asset, environment)
    show(state, lambda state: _format_canary(asset, state), json=json)


def _format_canary(asset: str, state: CanaryState) -> Iterator[str]:
    what = "watch" if state.is_watch else "canary"
    yield f"{what} of {asset}@{state.version} against {state.baseline or 'nothing'}"
    yield f"  stage     {state.stage}, {state.share:.0%} of traffic per arm"
    yield f"  since     {state.step_since:%Y-%m-%d %H:%M:%SZ}"
    if state.watch_until is not None:
        yield f"  until     {state.watch_until:%Y-%m-%d %H:%M:%SZ}"
    yield f"  clean     {state.clean_in_a_row} in a row, {state.clean_needed} needed"
    yield f"  windows   {state.clean_count} clean, {state.other_count} others"
    yield f"  last      {state.last or 'no window judged yet'}"
    yield f"  next      {state.next_window:%Y-%m-%d %H:%M:%SZ}"
    if state.is_overdue:
        yield f"  overdue   closed windows are not judged; run: gatemark canary tick {asset}"
    if state.paused is not None:
        yield f"  paused    {state.paused}"


@canary_command.command("assign")
@click.argument("asset")
@click.argument("key")
@environment_option
@store_option
@json_option
def assign_key_command(asset: str, key: str, environment: str, store: str, json: bool) -> None:
    """Show which version serves a key, such as the id of a conversation.

    The same key keeps its version while a canary grows. In Python: gatemark.assign(asset, key).

    \b
    Example:
      gatemark canary assign triage conversation-8841
    """
    found = assign(asset, key, store=store, environment=environment)
    lines = [f"{found.lane}  {asset}@{found.target.version}"]
    lines += [f"shadow  {asset}@{target.version}" for target in found.shadow]
    show(found, lambda _: lines, json=json)
