"""Make one store from synthetic data, with the build of Gatemark that is installed.

    python tools/make_store_fixture.py FOLDER [--story full] [--store postgresql://…]

FOLDER must not exist yet. It gets the store (``store``, unless an address of a database is given),
the packs and evidence that the story used, the ledger's keys, an export of the ledger, and
``facts.json``: what a reader of the store must find in it. ``tools/freeze_stores.py`` packs such
folders into the fixtures under ``tests/fixtures/stores``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from store_fixture.facts import gather
from store_fixture.stage import stage
from store_fixture.story import STORIES


def make(folder: Path, story: str, store: str = "store") -> dict[str, object]:
    """Tell one story into a new folder and return the facts about the store."""
    if folder.exists():
        raise SystemExit(f"{folder} exists already; name a new folder")
    with stage(folder, store) as on:
        STORIES[story](on)
        facts = gather(on)
        on.write("facts.json", json.dumps(facts, indent=1, sort_keys=True) + "\n")
    return facts


def main() -> None:
    """Read the command line and make the store."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where everything goes; must not exist")
    parser.add_argument("--story", choices=sorted(STORIES), default="full", help="what to tell")
    parser.add_argument("--store", default="store", help="postgresql://… instead of a folder")
    given = parser.parse_args()
    make(given.folder, given.story, given.store)


if __name__ == "__main__":
    main()
