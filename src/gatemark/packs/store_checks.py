"""What packs add to a store's verification: named baselines, and results derived again."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gatemark.integrity import StoreChecks
from gatemark.ledger.port import Store
from gatemark.ledger.verify import RescoredResult
from gatemark.packs.events import BaselineCheck


def _rescore(
    store: Store, is_erased: Callable[[str], bool]
) -> Iterable[tuple[str, RescoredResult]]:
    # Judging again needs all of the numerics, which the other checks do without.
    from gatemark.packs.rescore import rescore_store  # noqa: PLC0415

    return rescore_store(store, is_erased)


STORE_CHECKS = StoreChecks(name="packs", rules=lambda _: BaselineCheck(), rescore=_rescore)
