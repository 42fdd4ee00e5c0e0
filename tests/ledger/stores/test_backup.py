"""``gatemark store backup`` and ``restore``: everything comes back, or nothing is written."""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import sqlite3
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
import zstandard
from tests.ledger.listed import write_everything
from tests.ledger.samples import ATTACHMENT, EVIDENCE, MOMENT, result

from gatemark.cli.main import main
from gatemark.core.errors import IntegrityError
from gatemark.ledger.stores import DATABASE, table_rows
from gatemark.ledger.stores.archive import TRAILER_BYTES, ArchiveReader, ArchiveWriter
from gatemark.ledger.stores.backup import BackupReader
from gatemark.ledger.stores.database import NEWEST
from gatemark.workspace import Workspace

from .filled_stores import SEALED, Rows, layout_found, make_filled_store, set_layout, store_rows
from .next_release import NEXT, next_release, next_release_without

Run = Callable[..., Any]
IN_TABLES = {"blobs", "blob_pieces"}


def contents_of(address: str) -> Rows:
    """Every row but those of blobs, which SQLite keeps in files."""
    rows = store_rows(address)
    return {name: found for name, found in rows.items() if name not in IN_TABLES}


@pytest.fixture
def new_place(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str], str]:
    """The address of another place of a kind that holds nothing yet."""
    numbers = iter(range(99))

    def make(kind: str) -> str:
        if kind == "sqlite":
            return str(tmp_path / f"place-{next(numbers)}")
        url = str(request.getfixturevalue("new_postgres_url")())
        return f"{url}&blobs={tmp_path}/blobs-{next(numbers)}" if kind == "shared" else url

    return make


@pytest.fixture(scope="module")
def first_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store that has a row in every table, and its backup."""
    folder = tmp_path_factory.mktemp("archive")
    make_filled_store(str(folder / "store"), everywhere=True)
    words = ["store", "backup", str(folder / "store.tar.zst"), "--store", str(folder / "store")]
    assert main(words) == 0
    return folder


@pytest.fixture
def archive(first_archive: Path, tmp_path: Path) -> Path:
    """A backup of a store with a row in every table, and the store beside it."""
    shutil.copytree(first_archive, tmp_path, dirs_exist_ok=True)
    return tmp_path / "store.tar.zst"


@pytest.mark.parametrize(
    "way",
    [
        ("sqlite", "sqlite"),
        ("sqlite", "postgres", "sqlite"),
        ("postgres", "sqlite", "postgres"),
        ("postgres", "shared", "postgres"),
    ],
    ids="-".join,
)
def test_a_store_comes_back_whole_wherever_it_goes(
    gatemark: Run, tmp_path: Path, new_place: Callable[[str], str], way: tuple[str, ...]
) -> None:
    first, *others = way
    address = new_place(first)
    make_filled_store(address, everywhere=True)
    before = contents_of(address)
    head = Workspace(store=address).existing_store().events.head()
    for number, kind in enumerate(others):
        file = tmp_path / f"{number}.tar.zst"
        ran = gatemark("store", "backup", file, "--store", address)
        assert ran.code == 0, ran.err
        address = new_place(kind)
        ran = gatemark("store", "restore", file, "--store", address, "--json")
        assert ran.code == 0, ran.err
        assert (ran.json["events"], ran.json["results"], ran.json["blobs"]) == (9, 3, 2)
        assert (ran.json["layout"], ran.json["state"]) == (NEWEST, "newest")
        assert contents_of(address) == before
    workspace = Workspace(store=address, clock=lambda: MOMENT)
    assert workspace.events.head() == head
    assert workspace.blobs.get(SEALED[0].blobs[0].digest) == ATTACHMENT
    assert workspace.existing_store().events.missing_guards() == []
    # Life goes on: numbers of new rows come after those that were restored.
    assert workspace.results.append(result("d")) == len(SEALED) + 1
    workspace.store.close()


@pytest.mark.slow
def test_a_store_in_use_verifies_in_every_place_it_is_moved_to(
    gatemark: Run,
    tmp_path: Path,
    new_place: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # It is not in a backup: whoever moves a store takes it along.
    monkeypatch.setenv("GATEMARK_REVIEW_KEY", str(tmp_path / "review.key"))
    address = first = new_place("sqlite")
    write_everything(address, tmp_path)
    wanted = gatemark("ledger", "verify", "--json", "--store", address).json
    assert wanted["verdict"] == "pass"
    for number, kind in enumerate(("sqlite", "postgres", "shared", "sqlite")):
        file = tmp_path / f"{number}.tar.zst"
        assert gatemark("store", "backup", file, "--store", address).code == 0
        address = new_place(kind)
        assert gatemark("store", "restore", file, "--store", address).code == 0
        found = gatemark("ledger", "verify", "--json", "--store", address)
        assert (found.code, found.json) == (0, wanted)
    for command in (("list",), ("asset", "list"), ("review", "status")):
        moved, kept = (gatemark(*command, "--json", "--store", one) for one in (address, first))
        assert moved == kept, command


def test_a_store_of_an_older_layout_comes_back_as_it_was(
    gatemark: Run, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    old, restored, file = tmp_path / "old", tmp_path / "restored", tmp_path / "b.tar.zst"
    make_filled_store(str(old))
    for release in (next_release, next_release_without):
        later = release(tmp_path_factory)
        assert later("store", "backup", file, "--store", old).code == 0
        ran = later("store", "restore", file, "--store", restored)
        assert ran.code == 0, ran.err
        wants_upgrade = 'run "gatemark store upgrade" before you use it' in ran.out
        assert wants_upgrade == (release is next_release_without)
        assert contents_of(str(restored)) == contents_of(str(old))
        assert layout_found(str(restored)) == NEWEST
        assert gatemark("ledger", "verify", "--store", restored).code == 0
        assert later("store", "upgrade", "--store", restored).code == 0
        assert later("ledger", "verify", "--store", restored).code == 0
        shutil.rmtree(restored)
        file.unlink()


def test_the_file_is_for_its_owner_alone_and_other_tools_can_unpack_it(
    archive: Path, tmp_path: Path
) -> None:
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    unpacked = zstandard.ZstdDecompressor().stream_reader(
        archive.read_bytes(), read_across_frames=True
    )
    with tarfile.open(fileobj=io.BytesIO(unpacked.read())) as tar:
        members = {one.name: tar.extractfile(one).read() for one in tar}  # type: ignore[union-attr]
    about = msgspec.json.decode(members["about.json"])
    assert (about["format"], about["layout"], about["database"]) == (
        "gatemark.backup/1",
        NEWEST,
        "sqlite",
    )
    manifest = msgspec.json.decode(members["manifest.json"])
    for part in manifest["parts"]:
        assert hashlib.sha256(members.pop(part["name"])).hexdigest() == part["sha256"]
    del members["manifest.json"]
    assert sorted(members.values()) == sorted([EVIDENCE, ATTACHMENT])
    assert manifest["rows"]["people"] == 1, "accounts are part of it"
    assert manifest["rows"]["results"] == 3


def test_a_large_table_is_written_in_parts(
    gatemark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_rows, "PART_BYTES", 400)
    make_filled_store(str(tmp_path / "store"))
    file = tmp_path / "b.tar.zst"
    assert gatemark("store", "backup", file, "--store", tmp_path / "store").code == 0
    with file.open("rb") as stream:
        names = [member.name for member in ArchiveReader(stream, "b").members()]
    assert names.count("tables/events/000001.msgpack") == 1
    assert "tables/events/000004.msgpack" in names
    assert gatemark("store", "restore", file, "--store", tmp_path / "again").code == 0
    assert contents_of(str(tmp_path / "again")) == contents_of(str(tmp_path / "store"))


def test_a_row_that_is_too_large_is_refused_before_it_is_written(
    gatemark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_filled_store(str(tmp_path / "store"))
    monkeypatch.setattr(table_rows, "MAX_PART_BYTES", 700)
    ran = gatemark("store", "backup", tmp_path / "b.tar.zst", "--store", tmp_path / "store")
    assert ran.code == 2
    assert re.search(r": a row of \w+ has \d+ bytes, at most 700 can be backed up$", ran.err)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]


def test_a_backup_never_takes_the_place_of_a_file(gatemark: Run, archive: Path) -> None:
    before = archive.read_bytes()
    ran = gatemark("store", "backup", archive, "--store", archive.parent / "store")
    assert (ran.code, ran.err) == (
        2,
        f"gatemark: {archive}: already exists and is never overwritten\n",
    )
    assert archive.read_bytes() == before
    ran = gatemark("store", "backup", archive.parent / "b.zip", "--store", archive.parent / "store")
    assert (ran.code, "the name of a backup must end in .tar.zst" in ran.err) == (2, True)
    ran = gatemark(
        "store", "backup", archive.parent / "c.tar.zst", "--store", archive.parent / "no"
    )
    assert (ran.code, "there is no store at" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ("UPDATE events SET actor = 'nobody' WHERE seq = 4", "event 4 does not verify"),
        ("DELETE FROM payloads WHERE seq = 2", "the payload of event 2 is missing"),
        ("DELETE FROM events WHERE seq = 3", "event 3 is missing"),
        ("UPDATE results SET document = 'text' WHERE seq = 2", "results.document holds str"),
    ],
)
def test_a_store_that_does_not_verify_gives_no_backup(
    gatemark: Run, tmp_path: Path, harm: str, said: str
) -> None:
    make_filled_store(str(tmp_path / "store"))
    connection = sqlite3.connect(tmp_path / "store" / DATABASE)
    triggers = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'trigger'"
    ).fetchall()
    for (trigger,) in triggers:
        connection.execute(f"DROP TRIGGER {trigger}")
    connection.execute(harm)
    connection.commit()
    connection.close()
    ran = gatemark("store", "backup", tmp_path / "b.tar.zst", "--store", tmp_path / "store")
    assert (ran.code, said in ran.err) == (4, True), ran.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]


def test_a_changed_blob_gives_no_backup(gatemark: Run, tmp_path: Path) -> None:
    make_filled_store(str(tmp_path / "store"))
    blob = next(path for path in (tmp_path / "store" / "blobs").rglob("*") if path.is_file())
    blob.write_bytes(b"x" + blob.read_bytes()[1:])
    ran = gatemark("store", "backup", tmp_path / "b.tar.zst", "--store", tmp_path / "store")
    assert (ran.code, "does not verify: its bytes were changed" in ran.err) == (4, True)
    assert not (tmp_path / "b.tar.zst").exists()


def test_a_flipped_bit_anywhere_in_the_file_is_found(archive: Path) -> None:
    whole = archive.read_bytes()
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        with pytest.raises(IntegrityError, match="is damaged, or is not a backup of a store"):
            BackupReader(io.BytesIO(flipped), "b").check()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_damaged_file_ends_with_exit_4_and_leaves_nothing(
    gatemark: Run, archive: Path, new_place: Callable[[str], str], kind: str
) -> None:
    address = new_place(kind)
    whole = archive.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    damaged = archive.with_name("damaged.tar.zst")
    for data in (bytes(flipped), whole[:-1], whole[:100], b"", whole + b"\0", b"text" * 99):
        damaged.write_bytes(data)
        ran = gatemark("store", "restore", damaged, "--store", address)
        assert ran.code == 4, ran.err
        assert ran.err.startswith(f"gatemark: {damaged}: is damaged, or is not a backup of a store")
    if kind == "sqlite":
        assert not Path(address).exists()
    else:
        assert layout_found(address) is None
    ran = gatemark("store", "restore", archive.with_name("nowhere.tar.zst"), "--store", address)
    assert (ran.code, "cannot be read: No such file" in ran.err) == (2, True)


def test_a_place_that_is_taken_is_left_alone(
    gatemark: Run, archive: Path, tmp_path: Path, postgres_url: str
) -> None:
    store = tmp_path / "store"
    before = (store / DATABASE).read_bytes()
    ran = gatemark("store", "restore", archive, "--store", store)
    assert (ran.code, ran.err) == (
        1,
        f"gatemark: {store}: is not empty; name another place with --store\n",
    )
    assert (store / DATABASE).read_bytes() == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    assert gatemark("store", "restore", archive, "--store", tmp_path / "other").code == 1
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["notes.txt"]
    Workspace(store=postgres_url).store.close()
    ran = gatemark("store", "restore", archive, "--store", postgres_url)
    assert (ran.code, "holds a store already; name another place" in ran.err) == (1, True)
    assert Workspace(store=postgres_url).existing_store().events.head().seq == 0
    (tmp_path / "empty").mkdir()
    assert gatemark("store", "restore", archive, "--store", tmp_path / "empty").code == 0


# Files that somebody made on purpose, with a true digest at their end.


def members_of(archive: Path) -> dict[str, bytes]:
    with archive.open("rb") as stream:
        return {
            member.name: b"".join(member.pieces())
            for member in ArchiveReader(stream, "b").members()
        }


def write_members(path: Path, members: Iterable[tuple[str, bytes]]) -> None:
    with path.open("wb") as stream:
        writer = ArchiveWriter(stream, 0)
        for name, data in members:
            writer.add(name, data)
        writer.finish()


def sealed(packed: bytes) -> bytes:
    """Any bytes with a true digest at their end."""
    frame = (0x184D2A50).to_bytes(4, "little") + (32).to_bytes(4, "little")
    return packed + frame + hashlib.sha256(packed).digest()


def test_a_forged_event_is_found_by_the_chain(gatemark: Run, archive: Path, tmp_path: Path) -> None:
    name = "tables/events/000001.msgpack"
    members = members_of(archive)
    rows = msgspec.msgpack.decode(members[name])
    rows[3][4] = "forger"
    members[name] = msgspec.msgpack.encode(rows)
    manifest = msgspec.json.decode(members.pop("manifest.json"))
    for part in manifest["parts"]:
        part["sha256"] = hashlib.sha256(members[part["name"]]).hexdigest()
    forged = tmp_path / "forged.tar.zst"
    write_members(forged, [*members.items(), ("manifest.json", msgspec.json.encode(manifest))])
    ran = gatemark("store", "restore", forged, "--store", tmp_path / "new")
    assert ran.code == 4
    assert ran.err.startswith(f"gatemark: {forged}: event 4 does not verify")
    assert not (tmp_path / "new").exists()


def harmed(archive: Path) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """What is wrong, and members of which that is true; the digest at the end is right."""
    whole = members_of(archive)
    items = list(whole.items())
    results = "tables/results/000001.msgpack"
    blob = next(name for name in whole if name.startswith("blobs/"))
    yield "no manifest", items[:-1]
    yield "does not start with about.json", items[1:]
    yield "its rows do not match its manifest", [one for one in items if one[0] != results]
    yield "its blobs do not match its manifest", [one for one in items if one[0] != blob]
    yield "follows the manifest", [*items, (results, whole[results])]
    yield "blob", [*items[:-1], (blob, whole[blob]), items[-1]]
    yield (
        "its bytes have another digest",
        [(name, b"x" + data[1:] if name == blob else data) for name, data in items],
    )
    yield "it has an unexpected member", [*items[:-1], ("tables/other/000001.msgpack", b"\x90")]
    for rows in (b"\xc1", b"\xc0", b"\x91\xc0", b"\x91\x90", b"\x91" * 99_999):
        yield "results", [(name, rows if name == results else data) for name, data in items]
    for about in (b"{", b"{}", b"[]", b'{"format":"gatemark.pack/1"}'):
        yield "about.json", [("about.json", about), *items[1:]]
    layout = whole["about.json"].replace(b'"layout":"0', b'"layout":"x')
    yield "is not a layout of Gatemark", [("about.json", layout), *items[1:]]


def test_a_file_that_was_made_by_hand_is_refused(
    gatemark: Run, archive: Path, tmp_path: Path
) -> None:
    path, place = tmp_path / "made.tar.zst", tmp_path / "new"
    for said, members in harmed(archive):
        write_members(path, members)
        ran = gatemark("store", "restore", path, "--store", place)
        assert ran.code == (2 if "layout" in said else 4), (said, ran.err)
        assert said in ran.err
        assert not place.exists()
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


def test_a_newer_format_or_layout_of_a_backup_ends_with_exit_3(
    gatemark: Run, archive: Path, tmp_path: Path
) -> None:
    whole = members_of(archive)
    path, place = tmp_path / "newer.tar.zst", tmp_path / "new"
    about = whole["about.json"]
    for old, new in ((b"backup/1", b"backup/2"), (f'"{NEWEST}"'.encode(), b'"0999"')):
        write_members(path, [("about.json", about.replace(old, new, 1)), *list(whole.items())[1:]])
        ran = gatemark("store", "restore", path, "--store", place)
        assert (ran.code, "install a newer Gatemark" in ran.err) == (3, True), ran.err
        assert not place.exists()


@pytest.mark.parametrize(
    "name",
    ["../../evil", "/etc/passwd", "blobs/../../evil", "tables/../x/000001.msgpack", "blobs/aa/bb"],
)
def test_names_from_a_file_never_become_paths(
    gatemark: Run, tmp_path: Path, name: str, archive: Path
) -> None:
    path = tmp_path / "evil.tar.zst"
    items = list(members_of(archive).items())
    write_members(path, [*items[:-1], (name, b"x"), items[-1]])
    ran = gatemark("store", "restore", path, "--store", tmp_path / "new")
    assert (ran.code, f"it has an unexpected member {name!r}" in ran.err) == (4, True)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, b"L", b"x"]
)
def test_only_plain_files_are_read_from_a_tar_archive(tmp_path: Path, kind: bytes) -> None:
    header = tarfile.TarInfo("about.json")
    header.type, header.linkname = kind, "/etc/passwd"
    data = header.tobuf(tarfile.GNU_FORMAT, "ascii", "strict") + bytes(1024)
    packed = sealed(zstandard.ZstdCompressor().compress(data))
    with pytest.raises(IntegrityError, match="it has an unexpected member"):
        BackupReader(io.BytesIO(packed), "b")


def test_sizes_from_a_file_are_bounded(tmp_path: Path) -> None:
    header = tarfile.TarInfo("about.json")
    header.size = 1 << 31
    beginning = header.tobuf(tarfile.GNU_FORMAT, "ascii", "strict")
    packed = sealed(zstandard.ZstdCompressor().compress(beginning + bytes(1 << 20)))
    with pytest.raises(IntegrityError, match="has 2147483648 bytes, at most 1048576 are allowed"):
        BackupReader(io.BytesIO(packed), "b")
    header.size = 1 << 60
    beginning = header.tobuf(tarfile.GNU_FORMAT, "ascii", "strict")
    packed = sealed(zstandard.ZstdCompressor().compress(beginning))
    with pytest.raises(IntegrityError, match="has 1152921504606846976 bytes"):
        BackupReader(io.BytesIO(packed), "b")
    window = zstandard.ZstdCompressionParameters(window_log=30, enable_ldm=True)
    packer = zstandard.ZstdCompressor(compression_params=window).compressobj()
    packed = sealed(packer.compress(bytes(4096)) + packer.flush())
    with pytest.raises(IntegrityError, match="is damaged"):
        BackupReader(io.BytesIO(packed), "b")


def test_what_follows_the_end_is_refused(archive: Path) -> None:
    whole = archive.read_bytes()[:-TRAILER_BYTES]
    for more in (zstandard.ZstdCompressor().compress(b"more"), b"garbage", bytes(512)):
        with pytest.raises(IntegrityError, match="is damaged"):
            BackupReader(io.BytesIO(sealed(whole + more)), "b").check()
    BackupReader(io.BytesIO(sealed(whole)), "b").check()


def test_a_table_with_a_column_that_no_layout_has_is_not_dropped_silently(
    gatemark: Run, tmp_path: Path, postgres_url: str
) -> None:
    Workspace(store=postgres_url).store.close()
    with psycopg.connect(postgres_url) as connection:
        connection.execute("ALTER TABLE people ADD COLUMN nickname text")
    ran = gatemark("store", "backup", tmp_path / "b.tar.zst", "--store", postgres_url)
    assert (ran.code, "the table people has other columns: nickname" in ran.err) == (2, True)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("DROP TABLE people")
    ran = gatemark("store", "backup", tmp_path / "b.tar.zst", "--store", postgres_url)
    assert (ran.code, "tables are missing: people" in ran.err) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_other_tables_in_the_same_schema_are_not_backed_up(
    gatemark: Run, tmp_path: Path, postgres_url: str
) -> None:
    Workspace(store=postgres_url).store.close()
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE foreign_things (secret text)")
    file = tmp_path / "b.tar.zst"
    assert gatemark("store", "backup", file, "--store", postgres_url).code == 0
    assert "foreign_things" not in msgspec.json.decode(members_of(file)["manifest.json"])["rows"]


def test_info_counts_what_is_there(
    gatemark: Run, tmp_path: Path, postgres_url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for address in (str(tmp_path / "store"), postgres_url):
        make_filled_store(address)
        found = gatemark("store", "info", "--json", "--store", address).json
        assert (found["events"], found["results"], found["blobs"]) == (9, 3, 2)
        assert (found["layout"], found["newest_layout"], found["state"]) == (
            NEWEST,
            NEWEST,
            "newest",
        )
        assert found["database"] == ("SQLite" if address != postgres_url else "PostgreSQL")
        assert found["bytes_on_disk"] > 100_000
    folder = tmp_path / "store"
    files = [path for path in folder.rglob("*") if path.is_file()]
    found = gatemark("store", "info", "--json", "--store", folder).json
    assert found["bytes_on_disk"] == sum(path.stat().st_size for path in files)
    later = next_release_without(tmp_path_factory)("store", "info", "--store", folder)
    assert later.code == 0
    assert f"layout   {NEWEST}, too old; this build needs {NEXT} or newer: run " in later.out
    set_layout(str(folder), "0999")
    ran = gatemark("store", "info", "--store", folder)
    assert f"layout   0999, too new; this build makes {NEWEST}: install a newer" in ran.out
    assert "\nevents   9\n" in ran.out
