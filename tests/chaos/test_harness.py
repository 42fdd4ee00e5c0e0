"""The harness sees what it is there to see, and its short form finds nothing."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.chaos.__main__ import COLUMNS, Count, Share, table
from tests.chaos.file_options import SCENE, make_scene
from tests.chaos.guarded import GIGABYTE, guarded
from tests.chaos.kills import remains
from tests.docs.transcript import SERVER_PLACE, command_server
from tests.forked import Forked
from tests.ledger.samples import MOMENT
from tests.made_once import made_once

from gatemark.ledger.event import EventDraft
from gatemark.ledger.stores.folder import open_sqlite

ROOT = Path(__file__).resolve().parents[2]


SHORT = """
import sys
from tests.chaos.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_the_short_form_prints_zeros(tmp_path_factory: pytest.TempPathFactory) -> None:
    scene = made_once(tmp_path_factory, SCENE, make_scene)
    words = ("--short", "--scene", scene)
    shared = {SERVER_PLACE: command_server()}
    ran = Forked(words, code=SHORT, folder=ROOT, variables=shared).finish()
    head, *rows = ran.stdout.decode().splitlines()
    assert ran.returncode == 0, ran.stderr.decode()
    assert head.split() == " ".join(COLUMNS).split()
    kinds = ["kills, SQLite", "kills, PostgreSQL", "hand attacks, PostgreSQL"]
    kinds += ["hand attacks, SQLite", "kills of a run", "fuzzed files", "bombs"]
    kinds += ["bombs, read files", "fuzzed stores", "races", "full disks"]
    assert len(rows) == len(kinds)
    told = []
    for kind, row in zip(kinds, rows, strict=True):
        tried, *broken = row.removeprefix(kind).split()
        # Not every system lets us mount a disk to fill.
        is_tried = int(tried) > 0 or kind == "full disks"
        assert (row.startswith(kind), is_tried, broken) == (True, True, ["0"] * 5)
        told.append(f"{kind}: {tried} tried")
    assert ran.stderr.decode().splitlines() == told


def test_a_hang_a_bug_and_a_flood_are_told_apart() -> None:
    def flood() -> int:
        return len(bytearray(GIGABYTE + (64 << 20))) * 0

    def wait() -> int:
        signal.pause()
        return 0

    def say(text: str, code: int) -> int:
        print(text)
        return code

    seen = [
        (ended.is_hung, ended.is_bug, ended.is_over)
        for ended in (
            guarded(wait, 1),
            guarded(lambda: 1 // 0),
            guarded(flood),
            guarded(lambda: say("\x1b[2J", 2)),
            guarded(lambda: say("internal error", 5)),
            guarded(lambda: say("expected a number", 2)),
        )
    ]
    hang, bug, over = (True, False, False), (False, True, False), (False, False, True)
    assert seen == [hang, bug, over, bug, bug, (False, False, False)]


def test_what_was_reported_and_is_not_there_is_lost(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "s.sqlite3")
    note = EventDraft("noted", MOMENT, "writer", None, {"name": "1.2", "filler": ""})
    first = store.events.append([note] * 2)[-1]
    told = f"event {first.seq} {first.digest}"
    left = remains(store, [told, "event 9 sha256:gone"])
    assert left == ((), ("event 9 sha256:gone", "part of 1.2"), ())
    store.events.append([note] * 2)
    assert remains(store, [told]).duplicated == ("1.2",)
    store.close()


def test_one_loss_is_enough_to_fail() -> None:
    broken = Count("kills", tried=3, lost=1)
    assert not broken.is_clean
    assert Count("kills", tried=3).is_clean
    assert table([broken]).splitlines()[1].split() == ["kills", "3", "1", "0", "0", "0", "0"]


def test_shares_of_several_processes_add_up_to_the_whole() -> None:
    def tried(share: Share) -> Count:
        found = [str(number) for number in share.numbers(5)]
        return Count("numbers", tried=len(found), hang=share.first, found=found)

    whole = sum((tried(Share(number, 3)) for number in range(1, 3)), start=tried(Share(0, 3)))
    assert (whole.kind, whole.tried, whole.hang) == ("numbers", 5, 3)
    assert sorted(whole.found) == ["0", "1", "2", "3", "4"]
    assert not whole.is_clean
