"""The release policy that a new store starts with, as data.

An event records the policy in force, even the default. Never change the file: ``ledger verify``
accepts this policy, and no other, as the first one of a store.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

from gatemark.core.canonical import digest


@cache
def default_document() -> dict[str, object]:
    """Return the default policy, as written."""
    data = files("gatemark.release.lifecycle").joinpath("default_policy.json").read_bytes()
    document: dict[str, object] = msgspec.json.decode(data)
    return document


@cache
def default_digest() -> str:
    """Return the digest of the default policy."""
    return digest(default_document())
