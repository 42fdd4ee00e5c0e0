"""Real kills: a writing process is shot in the middle of its work, again and again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gatemark.ledger.checks.verify import verify_ledger
from gatemark.ledger.port import Store
from gatemark.ledger.stores.folder import open_sqlite
from gatemark.ledger.stores.postgres import open_postgres

KILLS = 220
POSTGRES_KILLS = 25

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


def shoot(address: str, kills: int) -> list[str]:
    """Let writers be shot; gives what they had reported as done."""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", NURSERY, address, str(kills), "7", str(root)],
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["shot"] == kills
    told: list[str] = answer["told"]
    return told


def check_nothing_is_lost(store: Store, told: list[str]) -> None:
    report = verify_ledger(store)
    assert report.troubles == ()
    digests = {f"event {event.seq} {event.digest}" for event, _ in store.events.events()}
    results = {f"result {name}" for name, _ in store.results.documents()}
    assert set(told) <= digests | results
    sealed = {p["result_id"] for _, p in store.events.events(kind="result_sealed") if p}
    assert {f"result {name}" for name in sealed} == results


@pytest.mark.slow
def test_a_shot_writer_loses_nothing_it_reported_on_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite3"
    told = shoot(str(path), KILLS)
    assert sum(line.startswith("event") for line in told) > KILLS / 2
    assert any(line.startswith("result") for line in told)
    check_nothing_is_lost(open_sqlite(path), told)


@pytest.mark.slow
def test_a_shot_writer_loses_nothing_it_reported_on_postgresql(postgres_url: str) -> None:
    told = shoot(postgres_url, POSTGRES_KILLS)
    assert told
    store = open_postgres(postgres_url)
    check_nothing_is_lost(store, told)
    store.close()
