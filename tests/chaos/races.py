"""Writers that race for one store while others check it, and writers whose disk fills up."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.chaos.kills import Remains, remains
from tests.ledger.samples import MOMENT, result
from tests.ledger.stores.tiny_disk import fill, tiny_disk

from gatemark.core.errors import OutageError
from gatemark.ledger.checks.ledger_check import verify_ledger
from gatemark.ledger.event import EventDraft
from gatemark.ledger.stores.folder import open_sqlite


def race(file: Path, writers: int, rounds: int) -> Remains:
    """Let writers append at the same time beside a check; hold the store against their reports."""
    open_sqlite(file).close()
    reading, writing = os.pipe()
    sys.stdout.flush()
    children = []
    for number in range(writers):
        child = os.fork()
        if child == 0:
            os.close(reading)
            _write(file, number, rounds, writing)
        children.append(child)
    os.close(writing)
    issues: list[object] = []
    checked = open_sqlite(file)
    told = b""
    while piece := os.read(reading, 65536):
        told += piece
        with checked.frozen() as frozen:
            issues += verify_ledger(frozen).issues
    os.close(reading)
    checked.close()
    issues += [child for child in children if os.waitpid(child, 0)[1] != 0]
    store = open_sqlite(file)
    left = remains(store, told.decode().splitlines())
    store.close()
    return left._replace(issues=(*left.issues, *issues))


def _write(file: Path, writer: int, rounds: int, report: int) -> None:
    code = 9
    try:
        store = open_sqlite(file)
        for number in range(1, rounds + 1):
            name = f"{writer}.{number}"
            if number % 4 == 0:
                one = result(name, actor=name)
                store.results.append(one)
                os.write(report, f"result {one.id}\n".encode())
            else:
                draft = EventDraft("noted", MOMENT, "writer", None, {"name": name, "filler": "x"})
                head = store.events.append([draft] * (number % 3 + 1))[-1]
                os.write(report, f"event {head.seq} {head.digest}\n".encode())
        store.close()
        code = 0
    finally:
        os._exit(code)


def fill_up(folder: Path, leave: int) -> Remains | None:
    """Write on a disk that fills up until nothing goes in; None where none can be mounted."""
    with tiny_disk(folder / "disk") as disk:
        if disk is None:
            return None
        file = disk / "s.sqlite3"
        open_sqlite(file).close()
        fill(disk, leave)
        told = []
        store = open_sqlite(file)
        try:
            for number in range(1, 2000):
                payload = {"name": f"0.{number}", "filler": "x" * (number * 997 % 20000)}
                draft = EventDraft("noted", MOMENT, "writer", None, payload)
                head = store.events.append([draft] * (number % 3 + 1))[-1]
                told.append(f"event {head.seq} {head.digest}")
        except OutageError:
            store.close()
        # The disk is still full: reading must go on.
        left_there = open_sqlite(file)
        left = remains(left_there, told)
        left_there.close()
    (folder / "disk").rmdir()
    return left
