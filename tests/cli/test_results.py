from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.made_once import PRINTED

from gatemark.core.canonical import digest, digest_bytes
from gatemark.core.result import OCCASION

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def demo(finished_demo: Path) -> Path:
    """What the demo leaves behind; tests only look at it."""
    printed = (finished_demo / PRINTED).read_text()
    assert "PASS" in printed
    assert "FAIL" in printed
    return finished_demo / "gatemark-demo"


def ids(gatemark: Run, store: Path) -> list[str]:
    return [line["id"] for line in gatemark("list", "--store", store, "--json").json]


def test_the_demo_fails_the_candidate_for_the_planted_reason(demo: Path) -> None:
    text = (demo / "candidate.md").read_text()
    assert text.splitlines()[0].startswith("**FAIL**")
    rows = (demo / "candidate" / "consistency_disagreements.tsv").read_text().splitlines()[1:]
    planted = [row for row in rows if row.endswith("\thard_flag")]
    assert len(planted) > 0.8 * len(rows)
    assert (demo / "baseline.html").read_text().count("<h1") == 1
    text = (demo / "pack-candidate.md").read_text()
    assert "regression must be &lt;= 0.05" in text.splitlines()[0]
    assert "golden: what got worse" in text


def test_list_shows_the_newest_first(gatemark: Run, demo: Path) -> None:
    ran = gatemark("list", "--store", demo / "store")
    rows = [line.split() for line in ran.out.splitlines()]
    assert len(rows) == 9
    times = [" ".join(row[1:3]) for row in rows]
    assert times == sorted(times, reverse=True)
    assert [row[3] for row in rows][-4:] == ["fail", "pass", "fail", "pass"]
    assert len(gatemark("list", "--store", demo / "store", "--limit", 1, "--json").json) == 1


def test_show_gives_the_sealed_document_whose_digest_is_its_id(gatemark: Run, demo: Path) -> None:
    for reference in ids(gatemark, demo / "store"):
        document = gatemark("show", reference[7:19], "--store", demo / "store", "--json").json
        assert document.pop("id") == reference
        stamp = document.pop("stamp")
        occasion = {name: document.pop(name) for name in OCCASION}
        assert digest(document) == reference
        assert digest({"id": reference, "occasion": occasion}) == stamp
        assert document["schema"] == "gatemark.result/1"


def test_the_store_keeps_the_evidence_under_its_digest(gatemark: Run, demo: Path) -> None:
    *_, oldest = ids(gatemark, demo / "store")
    document = gatemark("show", oldest, "--store", demo / "store", "--json").json
    for named in (*document["evidence"][0]["files"], *document["blobs"]):
        hexadecimal = named["digest"].removeprefix("sha256:")
        blob = demo / "store" / "blobs" / hexadecimal[:2] / hexadecimal
        assert digest_bytes(blob.read_bytes()) == named["digest"]


def test_report_writes_every_format(gatemark: Run, demo: Path, tmp_path: Path) -> None:
    newest, *_ = ids(gatemark, demo / "store")
    names = ["r.json", "r.md", "r.html", "r.junit.xml", "r.jsonl"]
    outputs = [argument for name in names for argument in ("-o", tmp_path / "new" / name)]
    assert gatemark("report", newest, "--store", demo / "store", *outputs).code == 0
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(names)
    assert json.loads((tmp_path / "new" / "r.json").read_text())["id"] == newest


def test_an_unknown_extension_writes_nothing(gatemark: Run, demo: Path, tmp_path: Path) -> None:
    newest, *_ = ids(gatemark, demo / "store")
    good, bad = tmp_path / "r.json", tmp_path / "r.docx"
    ran = gatemark("report", newest, "--store", demo / "store", "-o", good, "-o", bad)
    assert ran.code == 2
    assert not good.exists()


def test_report_needs_a_file(gatemark: Run, demo: Path) -> None:
    newest, *_ = ids(gatemark, demo / "store")
    assert gatemark("report", newest, "--store", demo / "store").code == 2


def test_a_result_edited_by_hand_exits_4(gatemark: Run, demo: Path, tmp_path: Path) -> None:
    demo = shutil.copytree(demo, tmp_path / "demo")
    newest, *_ = ids(gatemark, demo / "store")
    connection = sqlite3.connect(demo / "store" / "gatemark.sqlite3")
    connection.execute("DROP TRIGGER results_no_update")
    connection.execute(
        'UPDATE results SET document = replace(document, \'"verdict":"fail"\', '
        '\'"verdict":"pass"\') WHERE id = ?',
        (newest,),
    )
    connection.commit()
    connection.close()
    ran = gatemark("show", newest, "--store", demo / "store")
    assert ran.code == 4
    assert newest in ran.err


def test_looking_for_a_store_does_not_make_one(gatemark: Run, tmp_path: Path) -> None:
    for verb in (("list",), ("show", "0" * 8), ("report", "0" * 8, "-o", tmp_path / "r.md")):
        ran = gatemark(*verb, "--store", tmp_path / "new")
        assert (ran.code, ran.out) == (2, "")
        assert "there is no store at" in ran.err
    assert not list(tmp_path.iterdir())


def test_a_store_that_was_emptied_is_not_taken_for_a_new_one(gatemark: Run, tmp_path: Path) -> None:
    place = tmp_path / "store" / "gatemark.sqlite3"
    place.parent.mkdir()
    place.write_bytes(b"")
    for call in (("list",), ("show", "deadbeef"), ("report", "deadbeef", "-o", tmp_path / "r.md")):
        ran = gatemark(*call, "--store", place.parent)
        assert ran.code == 2
        assert "is not a usable store: it is empty" in ran.err
    assert place.stat().st_size == 0


def test_an_unsupported_store_address_is_refused_without_its_secret(gatemark: Run) -> None:
    ran = gatemark("list", "--store", "mysql://user:secret@host/db")
    assert ran.code == 2
    assert "secret" not in ran.err
