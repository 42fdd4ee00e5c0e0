"""The store of the demo."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from gatemark.core.atomic import write_whole
from gatemark.core.errors import RefusedError

MARK: Final = ".gatemark-demo"


def make_store(folder: Path) -> str:
    """Return the path of an empty store in the folder; a store of an earlier demo is removed.

    A store that the demo did not create is never touched.
    """
    store, mark = folder / "store", folder / MARK
    if store.exists() and not mark.exists():
        raise RefusedError(f"{store} was not created by the demo; choose another folder")
    shutil.rmtree(store, ignore_errors=True)
    write_whole(mark, [b"gatemark demo may replace the store beside this file\n"])
    return str(store)
