"""Delta debugging: the smallest set of changes that still makes the decision go wrong.

Zeller and Hildebrandt's ``ddmin`` with a three-valued oracle: an undecided test counts neither as a
failure nor as a success.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import msgspec

from gatemark.release.attribution.replay import LEVEL, Experiment, Judged
from gatemark.statistics.proportion import wilson_interval

Test = Callable[[frozenset[str]], Judged]
"""Returns the outcome of the decision with only these changes."""


class Minimal(msgspec.Struct, frozen=True):
    """The remaining changes, and how many tests were run and undecided.

    ``is_minimal`` is false if undecided tests leave room for a smaller set; ``reason`` says why
    nothing was searched at all.
    """

    changes: tuple[str, ...]
    tests: int
    unknown: int
    is_minimal: bool
    reason: str | None = None


def make_versions_test(
    experiment: Experiment, active: Mapping[str, str], changed: Mapping[str, str]
) -> Test:
    """Return a test of changed versions that distinguishes a cause from bad luck.

    Plans with flaky steps go wrong now and then whatever their versions. Versions are to blame if
    right outcomes are clearly less than half as frequent as with the reference versions.
    """
    reference = {**active, **experiment.reference}
    usual = experiment.whole(reference).rate

    def judge_subset(subset: frozenset[str]) -> Judged:
        if not usual:
            return "unknown" if usual is None else "wrong"
        tally = experiment.whole({**reference, **{name: changed[name] for name in subset}})
        if not tally.judged:
            return "unknown"
        low, high = wilson_interval(tally.right, tally.judged, LEVEL)
        if high < usual / 2:
            return "wrong"
        return "right" if low > usual / 2 else "unknown"

    return judge_subset


def find_smallest_change(changes: Sequence[str], test: Test, *, max_tests: int = 500) -> Minimal:
    """Return the 1-minimal set of changes that goes wrong, as far as the oracle can tell."""
    search = _Search(test, max_tests)
    everything = sorted(set(changes))
    if search.ask([]) == "wrong":
        reason = "the decision goes wrong without any of the changes"
        return Minimal((), search.tests, search.unknown, is_minimal=False, reason=reason)
    if search.ask(everything) != "wrong":
        reason = "the decision does not go wrong again with all changes in"
        return Minimal(
            tuple(everything), search.tests, search.unknown, is_minimal=False, reason=reason
        )
    left = search.reduce(everything)
    sure = search.is_minimal(left)
    return Minimal(tuple(left), search.tests, search.unknown, is_minimal=sure)


class _Search:
    def __init__(self, test: Test, max_tests: int) -> None:
        self._test = test
        self._max_tests = max_tests
        self._known: dict[frozenset[str], Judged] = {}
        self.unknown = 0

    @property
    def tests(self) -> int:
        return len(self._known)

    def ask(self, subset: Sequence[str]) -> Judged:
        key = frozenset(subset)
        if key not in self._known:
            if self.tests >= self._max_tests:
                return "unknown"
            self._known[key] = self._test(key)
            self.unknown += self._known[key] == "unknown"
        return self._known[key]

    def reduce(self, left: list[str]) -> list[str]:
        parts = 2
        while len(left) >= 2:
            chunks = _split(left, parts)
            smaller = next((chunk for chunk in chunks if self.ask(chunk) == "wrong"), None)
            if smaller is not None:
                left, parts = smaller, 2
                continue
            rests = [[one for one in left if one not in chunk] for chunk in chunks]
            rest = next((rest for rest in rests if self.ask(rest) == "wrong"), None)
            if rest is not None:
                left, parts = rest, max(parts - 1, 2)
                continue
            if parts >= len(left):
                break
            parts = min(len(left), parts * 2)
        return left

    def is_minimal(self, left: Sequence[str]) -> bool:
        return all(self.ask([o for o in left if o != one]) == "right" for one in left)


def _split(items: list[str], parts: int) -> list[list[str]]:
    edges = [len(items) * part // parts for part in range(parts + 1)]
    return [items[start:end] for start, end in pairwise(edges) if start < end]
