"""Stores against builds of the future: each sealed struct changed in a copy.

The stores are those that released builds wrote, and those that this build makes now.

The copies are real: the source is patched as a developer would patch it, and the command of the
patched build looks at the store in a process of its own.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path

import msgspec
import pytest
import zstandard
from tests.package_copy import SOURCE

from gatemark.core.measurement import Measurement
from gatemark.core.policy import Rule
from gatemark.core.result import AssetRef, Table
from gatemark.release.lifecycle.model.release_policy import CanaryRules, ReleasePolicy

from .mutated import (
    Struct,
    add_field,
    add_unset_field,
    change_defaults,
    mutated_copy,
    run,
    sealed_structs,
)
from .stores_now import STORIES, made_now

FIXTURES = Path(__file__).parents[1] / "fixtures" / "stores"
STORES = (*STORIES, *sorted(FIXTURES.glob("*/*.sqlite.tar.zst")))
EXPORTS = ("full", "erased", *sorted(FIXTURES.glob("*/*.export.tar.zst")))
Build = Callable[..., Path]


def name_of(place: str | Path) -> str:
    if isinstance(place, str):
        return place
    return f"{place.parent.name}-{place.name.partition('.')[0]}"


def unpack(archive: Path, folder: Path) -> Path:
    data = zstandard.ZstdDecompressor().stream_reader(archive.read_bytes()).read()
    with tarfile.open(fileobj=BytesIO(data)) as tar:
        tar.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module", params=STORES, ids=name_of)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that nobody writes to."""
    if isinstance(request.param, str):
        return made_now(tmp_path_factory, request.param) / "store"
    folder = unpack(request.param, tmp_path_factory.mktemp("store"))
    (database,) = folder.rglob("gatemark.sqlite3")
    return database.parent


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Make a changed build, once for each change."""
    made: dict[tuple[object, ...], Path] = {}

    def change(structs: tuple[Struct, ...], how: Callable[[str, str], str]) -> Path:
        key = (structs, how)
        if key not in made:
            made[key] = mutated_copy(tmp_path_factory.mktemp("build") / "src", structs, how)
        return made[key]

    return change


@cache
def said_now(store: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What this build says of a store."""
    return run(SOURCE.parent, "ledger", "verify", *arguments, "--store", str(store))


def expected(store: Path, source: Path, *arguments: str) -> None:
    """The changed build says of a store what this build says."""
    now = said_now(store, *arguments)
    then = run(source, "ledger", "verify", *arguments, "--store", str(store))
    assert then.stderr == now.stderr
    assert (then.returncode, then.stdout) == (now.returncode, now.stdout)
    assert then.returncode in (0, 3)


def test_a_field_added_to_every_struct_at_once(store: Path, build: Build) -> None:
    expected(store, build(tuple(sealed_structs()), add_field))


def test_a_field_added_to_every_struct_at_once_and_derived_again(store: Path, build: Build) -> None:
    expected(store, build(tuple(sealed_structs()), add_unset_field), "--rescore")


def test_every_default_changed_at_once(store: Path, build: Build) -> None:
    expected(store, build(tuple(sealed_structs()), change_defaults))


@pytest.fixture(scope="module")
def full_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store with the whole history."""
    return made_now(tmp_path_factory, "full") / "store"


@pytest.mark.parametrize(
    ("struct", "how"),
    [
        (Table, add_field),
        (Measurement, add_field),
        (Rule, add_field),
        (ReleasePolicy, add_field),
        (ReleasePolicy, change_defaults),
        (CanaryRules, change_defaults),
    ],
    ids=lambda one: one.__name__,
)
def test_one_change_alone(
    full_store: Path, build: Build, struct: Struct, how: Callable[[str, str], str]
) -> None:
    expected(full_store, build((struct,), how))


@pytest.mark.parametrize("place", EXPORTS, ids=name_of)
def test_an_export_of_an_earlier_build(
    place: str | Path, build: Build, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if isinstance(place, str):
        folder = made_now(tmp_path_factory, place) / "export"
    else:
        (events,) = unpack(place, tmp_path).rglob("events.jsonl")
        folder = events.parent
    for how in (add_field, change_defaults):
        source = build(tuple(sealed_structs()), how)
        ran = run(source, "ledger", "verify", str(folder))
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_changed_build_reads_and_adds_to_a_store(
    full_store: Path, build: Build, tmp_path: Path
) -> None:
    """The build with a field more everywhere lists, shows and appends; this build verifies it."""
    source = build(tuple(sealed_structs()), add_field)
    copy = tmp_path / "store"
    shutil.copytree(full_store, copy)
    place = ("--store", str(copy))
    assert run(source, "list", *place).stdout == run(SOURCE.parent, "list", *place).stdout
    pairs = tmp_path / "pairs.jsonl"
    line = '{"qid": "Q%d", "scholar": {"label": "%s"}, "auditor": {"label": "%s"}}\n'
    labels = ("VALID", "REJECT")
    lines = (line % (number, labels[number % 2], labels[number % 2]) for number in range(60))
    pairs.write_text("".join(lines), encoding="utf-8")
    sealed = run(source, "score", "agreement", "--pairs", str(pairs), "--seal", *place)
    assert sealed.returncode == 0, sealed.stderr
    for who in (source, SOURCE.parent):
        checked = run(who, "ledger", "verify", *place)
        assert checked.returncode == 0, checked.stdout


def test_this_build_verifies_what_a_later_one_wrote(build: Build, tmp_path: Path) -> None:
    """The later build plays the demo: exams, two people's promotion, drift and a way back."""
    source = build(tuple(sealed_structs()), add_field)
    played = run(source, "demo", cwd=tmp_path)
    assert played.returncode == 0, played.stderr
    (place,) = [database.parent for database in tmp_path.rglob("gatemark.sqlite3")]
    checked = run(SOURCE.parent, "ledger", "verify", "--store", str(place))
    assert checked.returncode == 0, checked.stdout
    status = run(SOURCE.parent, "drift", "status", "--store", str(place))
    assert status.returncode == 0, status.stderr


TYPED_AGAIN = """
import sqlite3, sys
import msgspec
from gatemark.core.canonical import digest_bytes, plain
from gatemark.core.result import OCCASION, Result
import rfc8785

rows = sqlite3.connect(sys.argv[1]).execute("SELECT id, document FROM results").fetchall()
wrong = 0
for identity, document in rows:
    content = plain(msgspec.json.decode(document, type=Result))
    for name in ("id", "stamp", *OCCASION):
        content.pop(name, None)
    wrong += digest_bytes(rfc8785.dumps(content)) != identity
print(wrong, len(rows))
"""


def test_values_that_are_written_again_fail_this_test(full_store: Path, build: Build) -> None:
    """A check that writes typed values again does not survive these changes."""
    script = [str(full_store / "gatemark.sqlite3")]
    untouched = _python(SOURCE.parent, TYPED_AGAIN, *script)
    wrong, count = map(int, untouched.split())
    assert wrong == 0 < count
    changed = _python(build(tuple(sealed_structs()), add_field), TYPED_AGAIN, *script)
    assert int(changed.split()[0]) == count


def test_the_same_definition_keeps_its_digest_in_a_changed_build(build: Build) -> None:
    """Packs, policies and rows that do not use a new field are the same ones after an upgrade."""
    script = """
from gatemark.core.canonical import digest
from gatemark.evidence.rows import Row
from gatemark.packs.pack import PackAsset, Pack
from gatemark.packs.suite_spec import SuiteSpec
from gatemark.core.policy import Policy, Rule
from gatemark.release.lifecycle.model.release_policy import ReleasePolicy
rule = Rule("r", "m", ">=", 0.5, fallback_rules=(Rule("s", "m", "<", 1),))
suite = SuiteSpec(id="g", kind="golden", weight=1.0, evidence={"a": "b"}, baseline_evidence="none")
pack = Pack(1, "p", 1, PackAsset("prompt", "a"), 0.5, 0.5, (suite,), rules=(rule,))
for one in (rule, Policy("p", (rule,)), pack, Row("i", {"x": 1}), ReleasePolicy()):
    print(digest(one))
"""
    now = _python(SOURCE.parent, script)
    assert len(now.split()) == 5
    assert _python(build(tuple(sealed_structs()), add_unset_field), script) == now


def test_a_field_that_is_used_changes_the_digest(build: Build) -> None:
    source = build((AssetRef,), add_field)
    script = """
from gatemark.core.canonical import digest
from gatemark.core.result import AssetRef
print(digest(AssetRef("a", "b")) == digest(AssetRef("a", "b", later_note="used")))
"""
    assert _python(source, script).strip() == "False"


def test_every_struct_can_be_sealed_by_this_list() -> None:
    """The list is found by walking the types, so that a new struct is in it by itself."""
    names = {struct.__name__ for struct in sealed_structs()}
    assert {"Result", "Rule", "Interval", "VersionMoved", "CanaryRules", "Remedy"} <= names
    assert all(issubclass(struct, msgspec.Struct) for struct in sealed_structs())


def _python(source: Path, script: str, *arguments: str) -> str:
    ran = run(source, *arguments, code=script)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
