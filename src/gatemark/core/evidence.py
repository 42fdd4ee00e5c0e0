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

    ``expected`` is the number of items pinned beforehand, or None when nobody pinned them;
    ``missing`` counts pinned items that never arrived and items with only one half;
    ``duplicates`` counts extra copies set aside by an explicit choice.
    """

    received: int
    accepted: int
    rejected: int
    missing: int
    expected: int | None
    files: tuple[EvidenceFile, ...]
    duplicates: int = 0
    checks: dict[str, str] = {}

    def __post_init__(self) -> None:
        counts = (self.received, self.accepted, self.rejected, self.missing, self.duplicates)
        if any(count < 0 for count in counts):
            raise InvalidValueError("evidence counts cannot be negative")
        if self.received != self.accepted + self.rejected:
            raise InvalidValueError(
                f"evidence does not add up: received {self.received} != "
                f"accepted {self.accepted} + rejected {self.rejected}"
            )

    @property
    def complete(self) -> bool:
        """Whether nothing was lost, refused or set aside on the way."""
        return self.rejected == 0 and self.missing == 0 and self.duplicates == 0
