"""How often raters give a label, and how often they agree on it: the specific agreement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from gatemark.core.measurement import Interval

LABEL_LEVEL: Final = 0.95
LABEL_MINS: Final = ("label_agreement_min", "label_agreement_upper_min")
"""The numbers of the label that raters agree on least: its value, and the least upper end."""


class LabelUse(NamedTuple):
    """How often each rater gave a label, and how often both gave it to the same item."""

    first: int
    second: int
    agreed: int

    @property
    def n(self) -> int:
        """The number of items that at least one rater gave the label."""
        return self.first + self.second - self.agreed

    @property
    def agreement(self) -> float:
        """The specific agreement: the share of the label's uses that both raters share."""
        return 2 * self.agreed / (self.first + self.second)

    @property
    def interval(self) -> Interval:
        """Return the interval of the specific agreement.

        Among the ``n`` items, the agreed ones are a share ``s``, and the specific agreement is
        ``2 s / (1 + s)``. The ends are those of Wilson's interval of ``s``.
        """
        # Imported late: the library takes longer to load than most files take to read.
        from gatemark.statistics.proportion import wilson_interval  # noqa: PLC0415

        low, high = (
            2 * end / (1 + end) for end in wilson_interval(self.agreed, self.n, LABEL_LEVEL)
        )
        return Interval(low=low, high=high, level=LABEL_LEVEL, method="wilson")


def label_uses(pairs: Mapping[tuple[str, str], int]) -> dict[str, LabelUse]:
    """Return how each label was used, from the number of items with each pair of labels."""
    first: Counter[str] = Counter()
    second: Counter[str] = Counter()
    for (one, other), count in pairs.items():
        first[one] += count
        second[other] += count
    return {
        label: LabelUse(first[label], second[label], pairs.get((label, label), 0))
        for label in sorted(first | second)
    }
