"""Kills, damage, bombs, races and full disks, with a table: ``python -m tests.chaos``.

Exits with 1 when anything was lost, doubled, crashed, hung or took more than a gigabyte.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tests.chaos.bombs import BOMBS, HOLE, NO_CONTENT
from tests.chaos.file_options import copied, make_scene, run_in, seen_in
from tests.chaos.guarded import Ended, guarded, guarded_each
from tests.chaos.hand_attacks import Outcome, cut_journal, on_files, on_rows, rolled_back
from tests.chaos.killed_runs import command_of, finish, furnish_run, record, shoot_run
from tests.chaos.kills import Remains, remains, shoot
from tests.chaos.races import fill_up, race
from tests.chaos.seeds import Seed, damaged, furnish, seeds
from tests.chaos.stores import keep, looks
from tests.in_memory import keep_files_in_memory
from tests.ledger.listed import write_everything
from tests.postgres_server import empty_place, real_postgres

from gatemark.cli.main import main as gatemark
from gatemark.ledger.port import Store
from gatemark.ledger.stores.folder import open_sqlite
from gatemark.ledger.stores.postgres import open_postgres

COLUMNS = ("kind", "tried", "lost", "duplicated", "traceback", "hang", "over 1 GB")
RUN_SHOTS = 8
"""How often one run is shot before it may end."""
A_FORK = 50
"""How many damaged files one fork is given."""
OF_FILES = ("a pipe that nobody writes", "/dev/zero", "blank lines")
LOST = 90
"""Ends an act after which the file it read was not there as before."""


@dataclass
class Count:
    """One line of the table."""

    kind: str
    tried: int = 0
    lost: int = 0
    duplicated: int = 0
    traceback: int = 0
    hang: int = 0
    over: int = 0
    found: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.duplicated or self.traceback or self.hang or self.over)

    def cells(self) -> tuple[str, ...]:
        return tuple(str(cell) for cell in astuple(self)[: len(COLUMNS)])

    def __add__(self, other: Count) -> Count:
        own, others = astuple(self)[1:], astuple(other)[1:]
        return Count(self.kind, *(one + two for one, two in zip(own, others, strict=True)))


class Share(NamedTuple):
    """Which of the numbered tries one of several processes makes."""

    first: int
    step: int

    def numbers(self, tries: int) -> range:
        return range(self.first, tries, self.step)


def in_shares(jobs: int, make: Callable[[Share], Count]) -> Count:
    """Make numbered tries in several processes, and add up what they counted.

    A try depends on its number alone, so the sum is the same for every number of processes. They
    are forked, so that what is loaded once serves them all.
    """
    forked = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, mp_context=forked) as pool:
        first, *rest = pool.map(make, [Share(number, jobs) for number in range(jobs)])
    return sum(rest, start=first)


def killed_writers(kind: str, address: str, kills: int, seed: int) -> Count:
    """Shoot writers of a store, and hold it against what they had reported."""
    count = Count(kind, tried=kills)
    told = shoot(address, kills, seed)
    opened = open_postgres if "://" in address else _open_file
    store: Store = opened(address)
    left = remains(store, told)
    store.close()
    count.lost = len(left.lost) + len(left.issues)
    count.duplicated = len(left.duplicated)
    count.found += [str(one) for part in left for one in part]
    return count


def _open_file(address: str) -> Store:
    return open_sqlite(Path(address))


def killed_runs(folder: Path, kills: int, items: int, seed: int) -> Count:
    """Shoot runs of a pack at seeded moments, resume them, and compare with a calm one."""
    count = Count("kills of a run")
    furnish_run(folder, items)
    arms = (
        *("--candidate", record(folder / "cand.jsonl", seed, items)),
        *("--baseline", record(folder / "base.jsonl", seed + 1, items)),
    )
    calm = finish(command_of(folder, folder / "calm", *arms))
    draw = random.Random(seed)
    while count.tried < kills:
        store = folder / f"shot-{count.tried}"
        shots = min(RUN_SHOTS, kills - count.tried)
        moments = sorted(draw.sample(range(2 * items), shots))
        command = command_of(folder, store, *arms, "-j", 2)
        shoot_run(command, store, moments)
        count.tried += shots
        shot = finish(command)
        opened = open_sqlite(store / "gatemark.sqlite3")
        names = [name for name, _ in opened.results.documents()]
        opened.close()
        count.lost += shot["id"] != calm["id"] or calm["id"] not in names
        count.duplicated += len(names) - 1
        shutil.rmtree(store)
    return count


def raced(folder: Path, races: int, rounds: int) -> Count:
    """Let four writers race for a store beside a check, again and again."""
    count = Count("races", tried=races)
    for number in range(races):
        _add_remains(count, race(folder / f"race-{number}.sqlite3", 4, rounds))
    return count


def filled_disks(folder: Path, disks: int, seed: int) -> Count:
    """Fill disks up at seeded moments; none where nothing can be mounted."""
    count = Count("full disks")
    draw = random.Random(seed)
    for _ in range(disks):
        left = fill_up(folder, draw.randrange(1_500_000))
        if left is not None:
            count.tried += 1
            _add_remains(count, left)
    return count


def _add_remains(count: Count, left: Remains) -> None:
    count.lost += len(left.lost) + len(left.issues)
    count.duplicated += len(left.duplicated)
    count.found += [str(one) for part in left for one in part]


def fuzzed_stores(folder: Path, inputs: int, seed: int, seconds: int, share: Share) -> Count:
    """Look at stores and exports with one odd value."""
    count = Count("fuzzed stores")
    place = folder / f"stores-{share.first}"
    place.mkdir()
    kept = keep(place)
    for what, command in looks(kept, place, seed, share.numbers(inputs)):
        _watch(count, command, f"{what}, {command[:3]}", seconds)
    shutil.rmtree(place)
    return count


def attacked(folder: Path, tries: int, seed: int) -> Count:
    """Attack stores in folders by hand: bytes, blobs, rows, an older database, a cut journal."""
    count = Count("hand attacks, SQLite")
    (folder / "attacks").mkdir()
    kept = keep(folder / "attacks")
    for number in range(max(1, tries // 10)):
        _judge(count, rolled_back(kept, folder / "attacks"))
        _judge(count, cut_journal(kept, folder / "attacks", random.Random(f"{seed} {number}")))
    for one in on_files(kept, folder / "attacks", seed, tries):
        _judge(count, one)
    shutil.rmtree(folder / "attacks")
    return count


def attacked_rows(server: str, folder: Path, tries: int, seed: int) -> Count:
    """Change rows as an administrator of PostgreSQL."""
    count = Count("hand attacks, PostgreSQL")
    address = empty_place(server, "attacked")
    (folder / "rows").mkdir()
    write_everything(address, folder / "rows")
    for one in on_rows(address, seed, tries):
        _judge(count, one)
    return count


def _judge(count: Count, one: Outcome) -> None:
    """What neither verification finds nor leaves every look as it was is lost."""
    _tally(count, one.ended, one.name)
    count.lost += one.is_hole
    if one.is_hole:
        count.found.append(f"{one.name}: not found, and changes {one.changed!r}")


def _told(seed: Seed, folder: Path) -> list[str]:
    path = str(folder / seed.file)
    return [one.replace("{}", path).replace("@", str(folder)) for one in seed.arguments]


def _watch(count: Count, command: list[str], name: str, seconds: int) -> None:
    """Run a command in a process of its own and count how it ended."""
    _tally(count, guarded(lambda: int(gatemark(command)), seconds), name)


def _tally(count: Count, ended: Ended, name: str) -> None:
    count.tried += 1
    is_lost = ended.code == LOST
    count.lost += is_lost
    count.traceback += ended.is_bug and not is_lost
    count.hang += ended.is_hung
    count.over += ended.is_over
    if ended.is_bug or ended.is_hung or ended.is_over:
        size = f"{ended.peak >> 20} MB"
        count.found.append(f"{name}: {ended.code}, {size}, {ended.said[-300:]!r}")


def fuzzed(folder: Path, inputs: int, seed: int, seconds: int, share: Share) -> Count:
    """Give every command that reads a file damaged ones, in turn."""
    count = Count("fuzzed files")
    place = folder / f"one-{share.first}"
    known = list(seeds())
    tries = ((number, known[number % len(known)]) for number in share.numbers(inputs))
    while some := list(islice(tries, A_FORK)):
        acts = [partial(_damage, place, one, f"{seed} {number}") for number, one in some]
        for (number, one), ended in zip(some, guarded_each(acts, seconds), strict=True):
            _tally(count, ended, f"{one.name}, input {number}")
    return count


def _damage(place: Path, one: Seed, name: str) -> int:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    furnish(place)
    data = damaged(one, random.Random(f"{name} {one.name}"))
    (place / one.file).write_bytes(data)
    code = int(gatemark(_told(one, place)))
    # A file that could not be read is still there to be mended.
    is_kept = (place / one.file).read_bytes() == data
    shutil.rmtree(place)
    return code if is_kept else LOST


def bombed(folder: Path, bombs: Iterable[str], commands: Sequence[Seed], seconds: int) -> Count:
    """Give every command that reads a file one of each bomb."""
    count = Count("bombs")
    for bomb in bombs:
        made = folder / "bomb"
        BOMBS[bomb](made)
        for seed in commands:
            place = folder / "one"
            place.mkdir()
            furnish(place)
            path = place / seed.file
            path.unlink(missing_ok=True)
            os.link(made, path, follow_symlinks=False)
            _watch(count, _told(seed, place), f"{seed.name}, {bomb}", seconds)
            shutil.rmtree(place)
        made.unlink()
    return count


def bombed_files(
    scene: Path, folder: Path, bombs: Iterable[str], seconds: int, some: int = 0
) -> Count:
    """Put each bomb in the place of each file that a command was seen to read (or of some)."""
    count = Count("bombs, read files")
    kept, place, made = scene / "kept", folder / "one", folder / "bomb"
    found = [(one.words, file) for one in seen_in(scene) for file in one.files]
    for bomb in bombs:
        BOMBS[bomb](made)
        for words, file in random.Random(bomb).sample(found, some or len(found)):
            copied(kept, place)
            (place / file).unlink()
            os.link(made, place / file, follow_symlinks=False)
            ended = guarded(partial(run_in, place, words), seconds)
            _tally(count, ended, f"{bomb} as {file}: {' '.join(words)}")
            if ended.code == 0 and file in words and bomb in NO_CONTENT:
                count.lost += 1
                count.found.append(f"{bomb} as {file} was taken: {' '.join(words)}")
            shutil.rmtree(place)
        made.unlink()
    return count


def warm(folder: Path) -> None:
    """Load what the commands need once, so that the forked ones need not."""
    for seed in seeds():
        place = folder / "one"
        place.mkdir()
        furnish(place)
        (place / seed.file).write_bytes(damaged(seed, random.Random(0)))
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123
            kept, sys.stdout, sys.stderr = (sys.stdout, sys.stderr), nowhere, nowhere
            try:
                gatemark(_told(seed, place))
            finally:
                sys.stdout, sys.stderr = kept
        shutil.rmtree(place)


def table(counts: Sequence[Count]) -> str:
    """The counts, one line each."""
    rows = [COLUMNS, *(count.cells() for count in counts)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(COLUMNS))]
    lines = []
    for row in rows:
        first = row[0].ljust(widths[0])
        lines.append(
            "  ".join([first, *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        )
    return "\n".join(lines)


def on_postgresql(kills: int, tries: int, folder: Path, seed: int) -> Iterator[Count]:
    """The kills and the attacks on PostgreSQL, where its server can be had."""
    try:
        with real_postgres() as server:
            yield killed_writers("kills, PostgreSQL", empty_place(server, "chaos"), kills, seed)
            yield attacked_rows(server, folder, tries, seed)
    except ImportError as missing:
        print(f"PostgreSQL is not tried: {missing}", file=sys.stderr)


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The sizes of a run."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="kills in all (default 1000)")
    parser.add_argument("--inputs", type=int, default=100_000, help="damaged files (100000)")
    parser.add_argument("--seed", type=int, default=7, help="another seed is another run (7)")
    parser.add_argument("--seconds", type=int, default=60, help="longer is a hang (60)")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count(), help="processes (all)")
    parser.add_argument("--short", action="store_true", help="a few of each, in half a minute")
    parser.add_argument("--scene", type=Path, help="folder with a scene that was made before")
    chosen = parser.parse_args(arguments)
    if chosen.short:
        chosen.kills, chosen.inputs, chosen.jobs = 16, 60, 1
    return chosen


def counted(chosen: argparse.Namespace, folder: Path) -> Iterator[Count]:
    """Every kind in turn. Of the kills, three quarters hit SQLite, and an eighth a run."""
    eighth = max(1, chosen.kills // 8)
    database = str(folder / "killed.sqlite3")
    yield killed_writers("kills, SQLite", database, chosen.kills - 2 * eighth, chosen.seed)
    tries = 8 if chosen.short else 400
    yield from on_postgresql(eighth, tries, folder, chosen.seed)
    yield attacked(folder, tries, chosen.seed)
    runs = folder / "runs"
    runs.mkdir()
    yield killed_runs(runs, eighth, 150 if chosen.short else 1500, chosen.seed)
    warm(folder)
    drawn = (chosen.seed, chosen.seconds)
    yield in_shares(chosen.jobs, partial(fuzzed, folder, chosen.inputs, *drawn))
    names = list(BOMBS)[:2] if chosen.short else list(BOMBS)
    yield bombed(folder, names, list(seeds()), chosen.seconds)
    some = 20 if chosen.short else 0
    if chosen.scene is None:
        make_scene(folder)
    yield bombed_files(chosen.scene or folder, folder, (*OF_FILES, HOLE), chosen.seconds, some)
    os.chdir(folder)
    # A tenth of the files again, as values in stores.
    some_looks = max(20, chosen.inputs // 10)
    yield in_shares(chosen.jobs, partial(fuzzed_stores, folder, some_looks, *drawn))
    yield raced(folder, 1 if chosen.short else 50, 12 if chosen.short else 60)
    yield filled_disks(folder, 2 if chosen.short else 50, chosen.seed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every kind, print the table, and say by the exit code whether all is well."""
    chosen = options(arguments)
    counts = []
    keep_files_in_memory()
    with tempfile.TemporaryDirectory(prefix="gm-chaos-") as name:
        # Reports of internal errors lie in the temporary folder; these go with it.
        os.environ["TMPDIR"] = tempfile.tempdir = name
        for count in counted(chosen, Path(name)):
            counts.append(count)
            print(f"{count.kind}: {count.tried} tried", file=sys.stderr, flush=True)
            for line in count.found[:20]:
                print(f"{count.kind}: {line}", file=sys.stderr, flush=True)
    print(table(counts))
    return 0 if all(count.is_clean for count in counts) else 1


if __name__ == "__main__":
    sys.exit(main())
