from __future__ import annotations

from pathlib import Path

import pytest
from tests.made_once import PRINTED

from gatemark.cli.main import main
from gatemark.integrity import verify
from gatemark.ledger.verify import VerifyRequest
from gatemark.server.accounts.identity import read_roles
from gatemark.workspace import Workspace


@pytest.mark.slow
def test_the_demo_leaves_one_store_that_verifies_and_says_how_to_look_at_it(
    finished_demo: Path,
) -> None:
    folder = finished_demo / "gatemark-demo"
    store = folder / "store"
    assert [path.name for path in folder.iterdir() if path.name.endswith("store")] == ["store"]
    last = (finished_demo / PRINTED).read_text().splitlines()[-2:]
    viewed, served = (line.split("    (")[0].split() for line in last)
    assert served == ["gatemark", "serve", "--store", "gatemark-demo/store"]
    assert viewed[:2] == ["gatemark", "view"]
    workspace = Workspace(store=str(store))
    # The first link is for the admin.
    assert read_roles(workspace, last[1].split("sign in as ")[1].rstrip(")")) == ("admin",)
    assert workspace.existing_results().get(viewed[2]).verdict == "fail"
    found = verify(workspace, VerifyRequest(rescore=True))
    assert found.issues == ()


@pytest.mark.slow
def test_a_watch_that_nobody_judged_says_what_to_run(
    finished_demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = finished_demo / "gatemark-demo" / "store"
    assert main(["canary", "show", "parcel-mail", "--store", str(store)]) == 0
    hint = "overdue   closed windows are not judged; run: gatemark canary tick parcel-mail"
    assert hint in capsys.readouterr().out


def test_the_demo_does_not_touch_a_store_that_it_did_not_make(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "store" / "gatemark.sqlite3"
    kept.parent.mkdir()
    kept.write_bytes(b"mine")
    assert main(["demo", str(tmp_path)]) == 1
    assert "was not created by the demo; choose another folder" in capsys.readouterr().err
    assert kept.read_bytes() == b"mine"
