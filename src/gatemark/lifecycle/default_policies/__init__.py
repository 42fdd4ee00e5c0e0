"""The default release policies of all releases, as data.

An event records the policy in force, even the default. Stores of 0.1.0 have no such event: there
the policy of ``0.1.0.json`` is in force until another one is adopted. Never change a file here. A
release with other defaults adds a file and a new version of the rules.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

from gatemark.core.canonical import digest

FIRST: Final = "0.1.0"
"""The default of stores without an event about it."""
NEWEST: Final = "0.2.0"
"""The default that a new store starts with."""
_RELEASES: Final = {"0.1.0": 1, "0.2.0": 5}
"""Releases with a default of their own, and the first version of the rules it applies to."""


@cache
def default_document(release: str) -> dict[str, object]:
    """Return the default policy of a release, as written."""
    data = files(__package__).joinpath(f"{release}.json").read_bytes()
    document: dict[str, object] = msgspec.json.decode(data)
    return document


@cache
def default_digest(release: str) -> str:
    """Return the digest of a release's default policy."""
    return digest(default_document(release))


def is_default(policy_digest: str, rules: int) -> bool:
    """Whether some release had this policy as its default under these rules."""
    known = [release for release, since in _RELEASES.items() if rules >= since]
    return policy_digest in map(default_digest, known)
