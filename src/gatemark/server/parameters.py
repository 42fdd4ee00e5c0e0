"""Parts of addresses and fields of queries that several things have, with their limits."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Header, Path, Query
from fastapi.params import Path as Part

NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$"
REFERENCE: Final = r"^(sha256:)?[0-9a-f]{8,64}$"
ASSET: Final[Part] = Path(max_length=128, pattern=NAME)
VERSION: Final[Part] = Path(max_length=64, pattern=NAME)
RESULT: Final[Part] = Path(pattern=REFERENCE)
Cursor = Annotated[int | None, Query(ge=1, le=2**53)]
"""The number below which the next page of a list begins."""
Limit = Annotated[int, Query(ge=1, le=200)]
Environment = Annotated[str, Query(max_length=128, pattern=NAME)]
Tag = Annotated[str | None, Header(alias="If-Match", max_length=64)]
"""The ETag of what the caller has seen."""
