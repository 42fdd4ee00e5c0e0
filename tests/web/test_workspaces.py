"""Each thread has its own house, and takes over what an ended one left."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.web.scene import ASSET, Scene

from gatemark.accounts.journey import look_now
from gatemark.lifecycle.state_cache import asset_state_cache, read_state
from gatemark.web.workspaces import Workspaces
from gatemark.workspace import Workspace


def in_a_thread(houses: Workspaces, found: list[Workspace]) -> None:
    thread = threading.Thread(target=lambda: found.append(houses.mine))
    thread.start()
    thread.join()


def test_a_thread_keeps_its_house_and_shares_it_with_nobody(tmp_path: Path) -> None:
    houses = Workspaces(lambda _: Workspace(store=str(tmp_path)))
    both, found = threading.Barrier(2), []

    def live() -> None:
        mine = houses.mine
        both.wait(10)
        assert houses.mine is mine
        found.append(mine)

    threads = [threading.Thread(target=live) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(house) for house in found}) == 2


def test_the_house_of_an_ended_thread_goes_to_the_next(scene: Scene) -> None:
    scene.enable("1.0.0")
    opened: list[Workspace] = []

    def open_house(_: str | None) -> Workspace:
        opened.append(Workspace(store=scene.store, clock=scene.clock))
        return opened[-1]

    houses, found = Workspaces(open_house), []
    for _ in range(3):
        in_a_thread(houses, found)
    assert len(opened) == 1
    assert found == opened * 3
    # What it reads in another thread is still the ledger.
    assert "1.0.0" in read_state(found[0], ASSET).asset.versions
    opened[0].store.close()


def test_prepared_houses_have_looked_and_are_taken_first(scene: Scene) -> None:
    opened: list[Workspace] = []

    def open_house(_: str | None) -> Workspace:
        opened.append(Workspace(store=scene.store, clock=scene.clock))
        return opened[-1]

    houses, found = Workspaces(open_house), []
    houses.prepare(2, lambda house: look_now(house, once=True))
    assert len(opened) == 2
    assert all(asset_state_cache(house).head() == scene.house.events.head() for house in opened)
    in_a_thread(houses, found)
    assert len(opened) == 2
    assert found[0] in opened
    for house in opened:
        house.store.close()
