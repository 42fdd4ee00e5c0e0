"""How fast an asset's history and route answer, and how fast commands are carried out."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.measure import Line, gatemark, run
from gatemark.core.canonical import digest
from gatemark.ledger.event import EventDraft
from gatemark.ledger.event_kinds import SYSTEM, as_payload
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import GrantRoles, PauseVersion, Promote, ResumeVersion
from gatemark.release.lifecycle.events.moves import VersionMoved
from gatemark.release.lifecycle.events.versions import VersionAdded
from gatemark.release.lifecycle.routing import assign, route
from gatemark.release.lifecycle.views.history import asset_history
from gatemark.workspace import Workspace

EVENTS = int(os.environ.get("GATEMARK_BENCH_EVENTS", "1000000"))
ASSETS = int(os.environ.get("GATEMARK_BENCH_ASSETS", "1000"))
BATCH = 5_000
START = datetime(2026, 1, 1, tzinfo=UTC)
STAGES = ("draft", "evaluating", "eligible", "shadow", "demoted", "evaluating")


def lines() -> Iterator[Line]:
    """History, route and assignment over a long ledger; commands on a short one."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "long"
        _fill(Workspace(store=str(store)))
        yield from _answers(store)
        yield from _commands(Path(folder) / "short")


def _fill(workspace: Workspace) -> None:
    """Many assets that went around the stages, some of them many times."""
    drafts: list[EventDraft] = []
    for number in range(EVENTS):
        name = f"asset-{number % ASSETS}"
        at = START + timedelta(seconds=number)
        turn = number // ASSETS
        fact: VersionAdded | VersionMoved
        if turn == 0:
            kind = "asset_registered"
            fact = VersionAdded(
                asset=name, kind="prompt", version="1.0.0", digest=digest(name), author="ann"
            )
        else:
            kind = "transition"
            before, after = STAGES[(turn - 1) % 5], STAGES[(turn - 1) % 5 + 1]
            fact = VersionMoved(
                asset=name,
                environment="production",
                version="1.0.0",
                candidate_digest=digest(name),
                before=before if turn > 1 else "draft",  # type: ignore[arg-type]
                after=after,  # type: ignore[arg-type]
                cause="promote",
                policy_digest=digest("policy"),
                result_ids=(digest("result"),),
            )
        drafts.append(EventDraft(kind, at, SYSTEM, name, as_payload(fact)))
        if len(drafts) == BATCH:
            workspace.events.append(drafts)
            drafts = []
    if drafts:
        workspace.events.append(drafts)


def _answers(store: Path) -> Iterator[Line]:
    clock = START + timedelta(seconds=EVENTS)
    workspace = Workspace(store=str(store), clock=lambda: clock)
    took = _best(lambda: asset_history(workspace, "asset-7"))
    yield Line(
        f"asset history, {EVENTS // ASSETS:,} of {EVENTS:,} events", took * 1e3, "ms", at_most=100
    )
    half = START + timedelta(seconds=EVENTS // 2)
    took = _best(lambda: asset_history(workspace, "asset-7", at=half))
    yield Line("asset history --at, the same", took * 1e3, "ms", at_most=100)
    took = _best(lambda: route(Workspace(store=str(store), clock=lambda: clock), "asset-7"))
    yield Line("route, read from the first event", took * 1e3, "ms")
    cost = run(gatemark("asset", "history", "asset-7", "--store", str(store), "--json"), repeats=3)
    yield Line("gatemark asset history, the whole process", cost.seconds * 1e3, "ms")


def _commands(folder: Path) -> Iterator[Line]:
    from tests.release.lifecycle.sealed import result, sealed_pack_identity  # noqa: PLC0415

    from gatemark.release.lifecycle.commands import AddVersion, Approve, SetRequiredPack  # noqa: PLC0415

    workspace = Workspace(store=str(folder))
    act(workspace, GrantRoles(actor="root", person="root", roles=("admin",)))
    for person, roles in (
        ("ann", ("author", "evaluator", "operator", "pack_owner")),
        ("bob", ("approver",)),
    ):
        act(workspace, GrantRoles(actor="root", person=person, roles=roles))  # type: ignore[arg-type]
    content = digest("content")
    act(
        workspace,
        AddVersion(actor="ann", asset="triage", kind="prompt", version="1.0.0", digest=content),
    )
    sealed = result("triage", content, workspace.clock())
    workspace.results.append(sealed)
    act(
        workspace,
        SetRequiredPack(
            actor="ann", asset="triage", required_pack=sealed_pack_identity(workspace.clock())
        ),
    )
    for to, cites in (("evaluating", ()), ("eligible", (sealed.id,)), ("shadow", ())):
        act(
            workspace,
            Promote(actor="ann", asset="triage", version="1.0.0", to=to, result_ids=cites),  # type: ignore[arg-type]
        )
    act(
        workspace,
        Approve(
            actor="bob", asset="triage", version="1.0.0", stage="enabled", note="read the results"
        ),
    )
    act(workspace, Promote(actor="ann", asset="triage", version="1.0.0", to="enabled"))
    started = time.perf_counter()
    rounds = 100
    for _ in range(rounds):
        act(
            workspace, PauseVersion(actor="ann", asset="triage", version="1.0.0", reason="operator")
        )
        act(workspace, ResumeVersion(actor="ann", asset="triage", version="1.0.0"))
    rate = 2 * rounds / (time.perf_counter() - started)
    yield Line("commands decided and appended one by one", rate, "/s", at_least=50)
    assign("triage", "warm", store=str(folder))
    started = time.perf_counter()
    calls = 2_000
    for number in range(calls):
        assign("triage", f"key-{number}", store=str(folder))
    yield Line("gatemark.assign", (time.perf_counter() - started) / calls * 1e6, "us")


def _best(work: object, repeats: int = 3) -> float:
    assert callable(work)
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)
