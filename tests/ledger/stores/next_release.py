"""A copy of this build with one more layout: it stands for the next release."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.conftest import Ran
from tests.forked import Forked
from tests.made_once import made_once
from tests.package_copy import copy_package

from gatemark.ledger.stores.database import NEWEST

NEXT = f"{int(NEWEST) + 1:04}"
_MIGRATION = f'''
"""A layout of the next release."""
import sqlalchemy as sa
from alembic import op

revision, down_revision = "{NEXT}", "{NEWEST}"


def upgrade() -> None:
    op.add_column("points", sa.Column("later", sa.Text))
'''
FAILS = """
    from gatemark.core.errors import IntegrityError

    raise IntegrityError("the power went")
"""
LOSES_ROWS = """
    op.execute("DROP TRIGGER results_no_delete")
    op.execute("DELETE FROM results WHERE seq = 3")
"""
HANGS = """
    import time

    print("in the middle", flush=True)
    time.sleep(600)
"""


class NextRelease(NamedTuple):
    """The folder of the source; calling it runs a command to its end."""

    source: Path

    def start(self, *words: object, code: str | None = None, is_heard: bool = False) -> Forked:
        return Forked(words, code=code, source=self.source, is_heard=is_heard)

    def __call__(self, *words: object) -> Ran:
        done = self.start(*words).finish()
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def next_release(factory: pytest.TempPathFactory, also: str = "") -> NextRelease:
    """The next release, whose migration ``also`` does something more."""

    def make(folder: Path) -> None:
        versions = copy_package(folder) / "ledger" / "migrations" / "versions"
        (versions / f"v{NEXT}_later.py").write_text(_MIGRATION + also)

    return NextRelease(made_once(factory, f"next-release-{_NAMES[also]}", make))


_NAMES = {"": "works", FAILS: "fails", LOSES_ROWS: "loses-rows", HANGS: "hangs"}


def next_release_without(factory: pytest.TempPathFactory) -> NextRelease:
    """A later release that no longer uses the layout of this one as it is."""

    def make(folder: Path) -> None:
        package = copy_package(folder)
        (package / "ledger/migrations/versions" / f"v{NEXT}_later.py").write_text(_MIGRATION)
        path = package / "ledger" / "stores" / "database.py"
        known = f'OLDEST_USABLE: Final = "{NEWEST}"'
        text = path.read_text()
        assert known in text
        path.write_text(text.replace(known, f'OLDEST_USABLE: Final = "{NEXT}"'))

    return NextRelease(made_once(factory, "next-release-without", make))


Release = Callable[..., Ran]
