"""Each thread has its own workspace, and takes over what an ended one left."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.server.scene import ASSET, Scene

from gatemark.release.lifecycle.state_cache import asset_state_cache, read_state
from gatemark.server.site import refresh_state
from gatemark.server.workspaces import Workspaces
from gatemark.workspace import Workspace


def in_a_thread(workspaces: Workspaces, found: list[Workspace]) -> None:
    thread = threading.Thread(target=lambda: found.append(workspaces.mine))
    thread.start()
    thread.join()


def test_a_thread_keeps_its_workspace_and_shares_it_with_nobody(tmp_path: Path) -> None:
    workspaces = Workspaces(lambda _: Workspace(store=str(tmp_path)))
    both, found = threading.Barrier(2), []

    def live() -> None:
        mine = workspaces.mine
        both.wait(10)
        assert workspaces.mine is mine
        found.append(mine)

    threads = [threading.Thread(target=live) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(workspace) for workspace in found}) == 2


def test_the_workspace_of_an_ended_thread_goes_to_the_next(scene: Scene) -> None:
    scene.enable("1.0.0")
    opened: list[Workspace] = []

    def open_workspace(_: str | None) -> Workspace:
        opened.append(Workspace(store=scene.store, clock=scene.clock))
        return opened[-1]

    workspaces, found = Workspaces(open_workspace), []
    for _ in range(3):
        in_a_thread(workspaces, found)
    assert len(opened) == 1
    assert found == opened * 3
    # What it reads in another thread is still the ledger.
    assert "1.0.0" in read_state(found[0], ASSET).asset.versions
    opened[0].store.close()


def test_prepared_workspaces_have_looked_and_are_taken_first(scene: Scene) -> None:
    opened: list[Workspace] = []

    def open_workspace(_: str | None) -> Workspace:
        opened.append(Workspace(store=scene.store, clock=scene.clock))
        return opened[-1]

    workspaces, found = Workspaces(open_workspace), []
    workspaces.prepare(2, lambda workspace: refresh_state(workspace, once=True))
    assert len(opened) == 2
    assert all(
        asset_state_cache(workspace).head() == scene.workspace.events.head() for workspace in opened
    )
    in_a_thread(workspaces, found)
    assert len(opened) == 2
    assert found[0] in opened
    for workspace in opened:
        workspace.store.close()
