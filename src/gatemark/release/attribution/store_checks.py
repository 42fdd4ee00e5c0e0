"""What attributions add to the verification of a store: the files that their events name."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gatemark.integrity import StoreChecks
from gatemark.ledger.port import Store
from gatemark.ledger.verify import RecordedBlob, read_payloads
from gatemark.release.attribution.events import ATTRIBUTION_SEALED


class _Sealed(msgspec.Struct):
    """The fields read from ``attribution_sealed``."""

    blobs: dict[str, str]


def _list_blobs(store: Store) -> Iterator[RecordedBlob]:
    for event, sealed in read_payloads(store, ATTRIBUTION_SEALED, _Sealed):
        for name, digest in sealed.blobs.items():
            what = "document" if name == "attribution" else name
            yield RecordedBlob(event.seq, f"{what} of an attribution", digest)


STORE_CHECKS = StoreChecks(name="attribution", blobs=_list_blobs)
