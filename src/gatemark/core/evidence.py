"""What was examined: how much arrived, how much was usable, and what the bytes were."""

from __future__ import annotations

import msgspec

from gatemark.core.canonical import is_digest
from gatemark.core.errors import InvalidValueError


class EvidenceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One input file, named by the digest of its bytes."""

    name: str
    digest: str
    byte_count: int

    def __post_init__(self) -> None:
        if not is_digest(self.digest):
            raise InvalidValueError(f"evidence {self.name} has no digest, got {self.digest!r}")


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The account of one body of evidence. It always adds up.

    ``received``, ``accepted`` and ``rejected`` count lines. ``usable`` counts the items that the
    accepted lines make up; ``missing`` counts pinned items that never arrived and items with only
    one half; ``duplicates`` counts extra copies set aside by an explicit choice. ``expected`` is
    the number of items pinned beforehand, or None when nobody pinned them.
    """

    received: int
    accepted: int
    rejected: int
    usable: int
    missing: int
    expected: int | None
    files: tuple[EvidenceFile, ...]
    duplicates: int = 0
    checks: dict[str, str] = {}

    def __post_init__(self) -> None:
        counts = (self.received, self.accepted, self.rejected, self.usable, self.lost_count)
        if min(*counts, self.missing, self.duplicates) < 0:
            raise InvalidValueError("evidence counts cannot be negative")
        if self.received != self.accepted + self.rejected:
            raise InvalidValueError(
                f"evidence does not add up: received {self.received} != "
                f"accepted {self.accepted} + rejected {self.rejected}"
            )

    @property
    def lost_count(self) -> int:
        """How many items were refused, never arrived, or were set aside."""
        return self.rejected + self.missing + self.duplicates
