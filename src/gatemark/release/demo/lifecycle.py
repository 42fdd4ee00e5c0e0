"""The demo's second half: two people take a change through shadow and canary, with refusals.

Everything is real except the clock, which is simulated.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from gatemark.core.atomic import write_whole
from gatemark.core.canonical import canonical_bytes
from gatemark.core.errors import RefusedError
from gatemark.core.result import Result
from gatemark.packs.init import write_starter
from gatemark.packs.run_choices import RunChoices
from gatemark.packs.run_pack import run_pack
from gatemark.release.demo.clock import DemoClock
from gatemark.release.lifecycle.act import CommandResult, act, run_due
from gatemark.release.lifecycle.assets import NewVersion, RequirePack, add_version, require_pack
from gatemark.release.lifecycle.canary import canary_state, push_windows
from gatemark.release.lifecycle.commands import Approve, Command, GrantRoles, Promote, PushShadow
from gatemark.release.lifecycle.model.nouns import Role, ShadowPairs, Stage, VersionRef
from gatemark.release.lifecycle.views.history import asset_history
from gatemark.release.lifecycle.views.text import lines_of
from gatemark.release.lifecycle.views.why import explain_stage
from gatemark.workspace import Workspace

ASSET: Final = "parcel-mail"
ANN: Final = "ann"
BOB: Final = "bob"
ADA: Final = "ada"
ROLES: Final[dict[str, tuple[Role, ...]]] = {
    ADA: ("admin",),
    ANN: ("author", "evaluator", "pack_owner", "operator"),
    BOB: ("approver",),
}
WINDOW: Final = timedelta(minutes=15)


class LifecycleAct(msgspec.Struct, frozen=True):
    """One step of the demo: its title, its ledger entries, and whether it was refused.

    ``planned`` says whether it ended as planned.
    """

    title: str
    lines: tuple[str, ...]
    was_refused: bool = False
    planned: bool = True


class Stagehand:
    """Two people, one asset and a clock, with shortcuts for the steps of the demo."""

    def __init__(self, folder: Path, store: str, start: datetime) -> None:
        self.clock = DemoClock(start)
        self.folder = folder
        self.workspace = Workspace(store=store, actor=ANN, clock=self.clock)
        self.pack = folder / "lifecycle-pack"
        shutil.rmtree(self.pack, ignore_errors=True)
        write_starter(self.pack)

    def play(self, title: str, *commands: Command, refuse: bool = False) -> LifecycleAct:
        """Run commands; with ``refuse``, the last one is expected to be refused."""
        lines: list[str] = []
        for command in commands:
            try:
                lines.extend(lines_of(act(self.workspace, command)))
            except RefusedError as error:
                printed = (*lines, *(f"refused: {line}" for line in error.lines()))
                return LifecycleAct(title, printed, was_refused=True, planned=refuse)
        return LifecycleAct(title, tuple(lines), planned=not refuse)

    def tell(self, title: str, *done: CommandResult) -> LifecycleAct:
        """Return steps that were already done as one act."""
        return LifecycleAct(title, tuple(line for result in done for line in lines_of(result)))

    def examine(self, candidate: str) -> Result:
        """Run the required pack with one of the starter's functions as the candidate."""
        path = self.pack / "pack.yaml"
        text = path.read_text(encoding="utf-8").replace("sorter:candidate", candidate)
        variant = self.pack / f"pack-{candidate.partition(':')[2]}.yaml"
        variant.write_text(text, encoding="utf-8")
        return run_pack(self.workspace, str(variant), RunChoices())

    def add(self, version: str, result: Result, *pins: str) -> CommandResult:
        new = NewVersion(
            asset=ASSET, version=version, kind="classifier", result=result.id, pins=pins
        )
        return add_version(self.workspace, new, actor=ANN)

    def promote(self, version: str, to: Stage, *cites: str) -> Promote:
        return Promote(actor=ANN, asset=ASSET, version=version, to=to, result_ids=cites)

    def approve(self, actor: str, version: str, stage: Stage, *cites: str) -> Approve:
        return Approve(
            actor=actor,
            asset=ASSET,
            version=version,
            stage=stage,
            result_ids=cites,
            note="read the results",
        )

    def pairs(self, version: str, start: datetime) -> PushShadow:
        """Return synthetic answers of the shadow and the live version to the same inputs."""
        pairs = ShadowPairs(
            start=start,
            end=self.clock.now,
            n=400,
            agreed=391,
            candidate_errors=1,
            live_errors=2,
        )
        return PushShadow(actor=ANN, asset=ASSET, version=version, pairs=pairs)

    def window(self) -> tuple[CommandResult, ...]:
        """Push and judge fifteen minutes of quiet traffic on both arms."""
        start = canary_state(self.workspace, ASSET).next_window
        # A window is judged one window later by default, to wait for late samples.
        self.clock.now = start + 2 * WINDOW
        lines = [_make_arm(start, arm, keys=400) for arm in ("canary", "baseline")]
        path = self.folder / "canary-window.jsonl"
        write_whole(path, [canonical_bytes(line) + b"\n" for line in lines])
        pushed = push_windows(self.workspace, ASSET, str(path), actor=ANN)
        return (*pushed, *run_due(self.workspace, ASSET, "production"))


def _make_arm(start: datetime, arm: str, *, keys: int) -> dict[str, Any]:
    """Return synthetic measurements of one arm."""
    checked = {"checked": keys, "violations": 0}
    slow = 120.0 if arm == "canary" else 121.0
    return {
        "start": f"{start:%Y-%m-%dT%H:%M:%SZ}",
        "end": f"{start + WINDOW:%Y-%m-%dT%H:%M:%SZ}",
        "arm": arm,
        "keys": keys,
        "metrics": {
            "error_rate": {"n": keys, "count": 2},
            "latency_ms": {
                "n": keys,
                "sum": keys * slow,
                "sum_squares": keys * (slow * slow + 900.0),
            },
        },
        "invariants": dict.fromkeys(("schema", "authority", "privacy"), checked),
    }


def play_lifecycle(folder: Path, store: str, start: datetime) -> Iterator[LifecycleAct]:
    """Take two versions live: one as the first, one through shadow and canary.

    Writes ``history.html`` and ``why.html``, and takes less than three days of its clock.
    """
    hand = Stagehand(folder, store, start)
    yield from _play_first_version(hand)
    yield from _play_second_version(hand)
    yield _write_pages(hand)


def _play_first_version(hand: Stagehand) -> Iterator[LifecycleAct]:
    grants = [GrantRoles(actor=ADA, person=person, roles=roles) for person, roles in ROLES.items()]
    yield hand.play("Ann sets up the workspace; Bob may approve", *grants)
    result = hand.examine("sorter:baseline")
    added = hand.add("1.0.0", result, "model=sorter-1")
    exam = require_pack(
        hand.workspace, RequirePack(asset=ASSET, pack=str(hand.pack / "pack.yaml")), actor=ANN
    )
    yield hand.tell("Ann adds version 1.0.0 and names its required pack", added, exam)
    yield hand.play(
        "It passed the pack, so that it may go to shadow",
        hand.promote("1.0.0", "evaluating"),
        hand.promote("1.0.0", "eligible", result.id),
        hand.promote("1.0.0", "shadow"),
    )
    yield hand.play("Nobody enables it alone", hand.promote("1.0.0", "enabled"), refuse=True)
    yield hand.play(
        "Bob approves, Ann enables it as the first version of all",
        hand.approve(BOB, "1.0.0", "enabled"),
        hand.promote("1.0.0", "enabled"),
    )


def _play_second_version(hand: Stagehand) -> Iterator[LifecycleAct]:
    result = hand.examine("sorter:candidate")
    added = hand.add("1.1.0", result, "model=sorter-2")
    yield hand.tell("Ann adds version 1.1.0", added)
    yield hand.play(
        "It passed too, and runs in shadow beside 1.0.0",
        hand.promote("1.1.0", "evaluating"),
        hand.promote("1.1.0", "eligible", result.id),
        hand.promote("1.1.0", "shadow"),
    )
    entered = hand.clock.now
    hand.clock.now += timedelta(hours=24, minutes=30)
    yield hand.play("A day of answers to the same mail", hand.pairs("1.1.0", entered))
    compared = hand.examine("sorter:candidate")
    yield hand.play(
        "Ann wrote it, so that she cannot approve it",
        hand.approve(ANN, "1.1.0", "canary_1", compared.id),
        refuse=True,
    )
    yield hand.play(
        "Bob approves the canary",
        hand.approve(BOB, "1.1.0", "canary_1", compared.id),
        hand.promote("1.1.0", "canary_1", compared.id),
    )
    for share in ("1 %", "5 %", "25 %"):
        done = [one for _ in range(2) for one in hand.window()]
        yield hand.tell(f"Two clean windows at {share}", *done)
    yield hand.play(
        "Bob approves again, and 1.1.0 takes the place of 1.0.0",
        hand.approve(BOB, "1.1.0", "enabled"),
        hand.promote("1.1.0", "enabled"),
    )


def _write_pages(hand: Stagehand) -> LifecycleAct:
    # Drawing needs the report extra; the acts before it do not.
    from gatemark.release.lifecycle.views.page import render_history_page, render_why_page  # noqa: PLC0415

    history, reasons = hand.folder / "history.html", hand.folder / "why.html"
    write_whole(history, [render_history_page(asset_history(hand.workspace, ASSET))])
    ref = VersionRef(asset=ASSET, version="1.1.0")
    write_whole(reasons, [render_why_page(explain_stage(hand.workspace, ref))])
    return LifecycleAct("What was live when, and why", (str(history), str(reasons)))
