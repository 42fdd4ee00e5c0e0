"""The looks of an adaptive pack: which items are due by each, and its significance level."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from gatemark.evidence.rows import Row, Snapshot
from gatemark.packs.pack_file import OpenPack
from gatemark.packs.suite_plugins import find_suite_plugin
from gatemark.packs.suite_spec import RegressionMode
from gatemark.statistics.significance import look_levels


class PackLook(msgspec.Struct, frozen=True):
    """One round of an adaptive pack: the ids due by then, and its significance level."""

    number: int
    total: int
    alpha: float
    due: dict[str, frozenset[str]]

    @property
    def is_last(self) -> bool:
        """Whether this is the last round."""
        return self.number == self.total

    @property
    def settings(self) -> dict[str, int | float]:
        """The settings of this look in a sealed policy."""
        return {"look": self.number, "looks": self.total, "look_alpha": self.alpha}


def plan_looks(
    opened: OpenPack, modes: Mapping[str, RegressionMode], compared: frozenset[str]
) -> tuple[PackLook, ...]:
    """Return the looks of an adaptive pack; none if nothing is compared item by item.

    Rounds take items of suites whose drop is tested statistically; all other suites, and those that
    another suite examines, are asked completely. The order of items depends on the data alone, so
    that no score can influence it, and items of a cluster come together.
    """
    pack = opened.pack
    if pack.adaptive is None:
        return ()
    sources = {suite.source for suite in pack.suites}
    staged = [
        suite.id
        for suite in pack.suites
        if suite.id in compared
        and suite.dataset is not None
        and suite.id not in sources
        and modes[suite.id] == "non_inferiority"
        and find_suite_plugin(suite).is_paired
    ]
    if not staged:
        return ()
    order = {name: _order_items(opened.snapshots[name]) for name in staged}
    total, budget = sum(map(len, order.values())), pack.adaptive.budget
    if budget is not None and budget < total:
        order = {name: ids[: max(1, len(ids) * budget // total)] for name, ids in order.items()}
    whole = {s.id: opened.snapshots[s.id].ids for s in pack.suites if s.dataset is not None}
    count = pack.adaptive.looks
    return tuple(
        PackLook(
            number=number,
            total=count,
            alpha=alpha,
            due={
                **whole,
                **{
                    name: frozenset(ids[: -(-len(ids) * number // count)])
                    for name, ids in order.items()
                },
            },
        )
        for number, alpha in enumerate(look_levels(count, pack.level), start=1)
    )


def _order_items(snapshot: Snapshot) -> list[str]:
    def place(row: Row) -> tuple[bytes, str]:
        group = f"id:{row.id}" if row.cluster is None else f"cluster:{row.cluster}"
        return hashlib.sha256(f"{snapshot.digest}\x00{group}".encode()).digest(), row.id

    return [row.id for row in sorted(snapshot.rows, key=place)]
