"""Writers of a store that are shot in the middle of their work, and what is left of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from gatemark.ledger.checks.ledger_check import verify_ledger
from gatemark.ledger.port import Store

# One process loads everything once and forks the writers, so that a kill costs milliseconds.
NURSERY = """
import json, os, random, signal, sys, time
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, sys.argv[4])
from gatemark.ledger.event import EventDraft
from gatemark.ledger.stores.postgres import open_postgres
from gatemark.ledger.stores.folder import open_sqlite
from tests.ledger.samples import MOMENT, result

address, kills, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

def open_store():
    return open_postgres(address) if "://" in address else open_sqlite(Path(address))

def write_on(report, round_number):
    store = open_store()
    number = 0
    while True:
        number += 1
        name = f"{round_number}.{number}"
        if number % 4 == 0:
            one = result(name, actor=name)
            store.blobs.put(name.encode())
            store.results.append(one)
            os.write(report, f"result {one.id}\\n".encode())
        else:
            payload = {"name": name, "filler": "x" * (number * 997 % 20000)}
            drafts = [EventDraft("noted", MOMENT, "writer", None, payload)] * (number % 3 + 1)
            head = store.events.append(drafts)[-1]
            os.write(report, f"event {head.seq} {head.digest}\\n".encode())

open_store().close()
rng = random.Random(seed)
told, shot = [], 0
for round_number in range(kills):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            write_on(writing, round_number)
        finally:
            os._exit(9)
    os.close(writing)
    if rng.random() < 0.8:
        told.append(os.read(reading, 65536).decode())
    time.sleep(rng.random() ** 3 * 0.03)
    os.kill(pid, signal.SIGKILL)
    shot += os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9
    while data := os.read(reading, 65536):
        told.append(data.decode())
    os.close(reading)
print(json.dumps({"shot": shot, "told": "".join(told).split("\\n")[:-1]}))
"""


def shoot(address: str, kills: int, seed: int = 7) -> list[str]:
    """Let writers be shot; gives what they had reported as done."""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", NURSERY, address, str(kills), str(seed), str(root)],
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=max(300, kills * 2),
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["shot"] == kills
    told: list[str] = answer["told"]
    return told


class Remains(NamedTuple):
    """What a store says after the last shot."""

    issues: tuple[object, ...]
    lost: tuple[str, ...]
    """What a writer had reported as done and the store does not have, or has in halves."""
    duplicated: tuple[str, ...]
    """What is there more often than it was written."""


def remains(store: Store, told: list[str]) -> Remains:
    """Hold a store against what its writers had reported."""
    events = list(store.events.events())
    digests = {f"event {event.seq} {event.digest}" for event, _ in events}
    results = [f"result {name}" for name, _ in store.results.documents()]
    sealed = [f"result {p['result_id']}" for e, p in events if p and e.kind == "result_sealed"]
    lost = (set(told) - digests - set(results)) | (set(sealed) ^ set(results))
    noted = Counter(str(p["name"]) for e, p in events if p and e.kind == "noted")
    # One append notes a name once, twice or three times; all of it or none.
    wanted = {name: int(name.partition(".")[2]) % 3 + 1 for name in noted}
    lost |= {f"part of {name}" for name in noted if noted[name] < wanted[name]}
    often = [name for name in noted if noted[name] > wanted[name]]
    often += [name for names in (sealed, results) for name, n in Counter(names).items() if n > 1]
    return Remains(verify_ledger(store).issues, tuple(sorted(lost)), tuple(often))
