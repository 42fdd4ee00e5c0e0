"""What the data of a pack can decide: margins that are too small, and expected verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import msgspec

from gatemark.packs.baselines import iterate_results_of_pack
from gatemark.packs.limited_runs import read_limit
from gatemark.packs.lint.report import LintWarning
from gatemark.packs.margins import choose_regression_modes, find_bound, find_guard
from gatemark.packs.pack import Pack
from gatemark.packs.pack_file import OpenPack
from gatemark.packs.pooled_drop import choose_pooled_suites
from gatemark.packs.questions import make_sample
from gatemark.packs.recordings import open_recording
from gatemark.packs.suite_plugins import build_scorer
from gatemark.packs.suite_spec import SuiteSpec
from gatemark.scorers.scorer import Scorable
from gatemark.statistics.paired.verdict_rates import AdaptiveRates, SuiteDesign, adaptive_rates
from gatemark.targets.port import Reply
from gatemark.targets.spec import parse_spec
from gatemark.workspace import Workspace

ASSUMED_DISCORDANCE = 0.10
"""Assumed share of items on which two similar models differ, if nothing is known."""
LEAST_DISCORDANCE = 0.01
SMALLEST_MARGIN = 1e-6


def compute_least_items(margin: float, alpha: float) -> int | None:
    """Return the fewest items that can show identical arms to be within the margin."""
    return math.ceil(-math.log(alpha) / margin) if margin >= SMALLEST_MARGIN else None


class _Tests:
    """The statistical tests of a pack: the pool, and suites on their own."""

    def __init__(self, opened: OpenPack) -> None:
        pack = opened.pack
        compared = [s for s in pack.suites if s.dataset is not None and pack.has_baseline]
        modes = choose_regression_modes(pack)
        self.pooled = choose_pooled_suites(pack, modes, frozenset(suite.id for suite in compared))
        self.suites = [s for s in compared if modes[s.id] == "non_inferiority"]
        self.sizes = {suite.id: len(opened.snapshots[suite.id].rows) for suite in self.suites}


def find_margin_warnings(opened: OpenPack) -> Iterator[LintWarning]:
    """Yield margins that even an identical candidate could not be shown to keep."""
    pack, tests = opened.pack, _Tests(opened)
    for suite in tests.suites:
        n, bound = tests.sizes[suite.id], find_bound(pack, suite, tests.pooled)
        least = compute_least_items(bound * _compute_scale(suite), pack.level)
        if least is None or n < least:
            needed = f"it takes {least}" if least else "no number of items would do"
            is_guard = suite.id in tests.pooled and suite.regression_max is None
            name = "guard_max" if is_guard else "regression_max"
            yield LintWarning(
                _find_margin_path(opened, suite, name),
                f"suite {suite.id}: {n} items cannot show that an identical candidate stays within "
                f"{name} {bound:g} ({needed}); only one that is clearly better could pass; "
                f"add items, or raise {name}",
            )
    if not tests.pooled:
        return
    weight = sum(pack.suite(name).weight for name in tests.pooled)
    heaviest = max(
        tests.pooled, key=lambda name: (pack.suite(name).weight / tests.sizes[name], name)
    )
    share = pack.suite(heaviest).weight / weight
    least = compute_least_items(
        pack.regression_max * _compute_scale(pack.suite(heaviest)) / share, pack.level
    )
    if least is None or tests.sizes[heaviest] < least:
        needed = f"with its weight it takes {least}" if least else "no number of items would do"
        yield LintWarning(
            "$.regression_max",
            "the pooled suites cannot show that an identical candidate stays within "
            f"regression_max {pack.regression_max:g}: suite {heaviest} has "
            f"{tests.sizes[heaviest]} items ({needed}); add items, or raise regression_max",
        )


def _find_margin_path(opened: OpenPack, suite: SuiteSpec, name: str) -> str:
    """Return the path of a suite's margin in the pack file."""
    pack = opened.pack
    if suite.regression_max is not None:
        return f"$.suites[{pack.suites.index(suite)}].regression_max"
    is_given = name == "guard_max" and pack.guard_max is not None
    return "$.guard_max" if is_given else "$.regression_max"


def _compute_scale(suite: SuiteSpec) -> float:
    return 1 / (suite.largest_drop or 1.0)


class Discordance(msgspec.Struct, frozen=True):
    """How often the arms differ on an item, by suite, and the source of these figures."""

    rates: dict[str, float]
    origin: str


def measure_discordance(workspace: Workspace, pack: Pack) -> Discordance | None:
    """Return what the last result of this pack measured, or None if the store has none."""
    if not workspace.has_store:
        return None
    for result in iterate_results_of_pack(workspace, pack):
        moved: dict[str, float] = {}
        for number in result.measurements:
            if number.name in ("lost_count", "gained_count") and number.scope and number.n:
                share = (number.value or 0.0) / number.n
                moved[number.scope] = moved.get(number.scope, 0.0) + share
        if moved and read_limit(result) is None:
            rates = {scope: max(LEAST_DISCORDANCE, rate) for scope, rate in moved.items()}
            when = f"{result.finished_at:%Y-%m-%d}"
            return Discordance(rates, f"as in result {result.id[7:19]} of {when}")
    return None


def predict_verdicts(
    opened: OpenPack, discordance: float | None = None, measured: Discordance | None = None
) -> Iterator[str]:
    """Yield how often an equal and a worse candidate would pass, fail or stay inconclusive.

    ``measured`` comes from an earlier result; ``discordance`` comes from the user and takes
    precedence.
    """
    pack, tests = opened.pack, _Tests(opened)
    groups = [tests.pooled] if tests.pooled else []
    groups += [frozenset({s.id}) for s in tests.suites if s.id not in tests.pooled]
    sizes = _count_asked(pack, tests.sizes)
    looks = 1 if pack.adaptive is None else pack.adaptive.looks
    for group in groups:
        members = [suite for suite in tests.suites if suite.id in group]
        if min(sizes[suite.id] for suite in members) < 2 * looks:
            continue
        margin = (
            pack.regression_max
            if group == tests.pooled
            else find_bound(pack, members[0], tests.pooled)
        )
        differing, origin = _measure_differing_shares(opened, members, discordance, measured)
        designs = [
            SuiteDesign(suite.weight or 1.0, sizes[suite.id], find_guard(pack, suite), rate)
            for suite, rate in zip(members, differing.values(), strict=True)
        ]
        worse = min(2 * margin, 1.0)
        equal, harmed = (
            adaptive_rates(designs, looks=looks, margin=margin, drop=drop, alpha=pack.level)
            for drop in (0.0, worse)
        )
        yield (
            f"{_name_suites(members, sizes)} at regression_max {margin:g}, if "
            f"{_describe_differing(differing)} of the answers differ ({origin}): an equal "
            f"candidate would {_describe_rates(equal)}; one worse by {worse:g} would "
            f"{_describe_rates(harmed)}"
            + (
                ""
                if pack.adaptive is None
                else _describe_spending(sizes, members, looks, equal, harmed)
            )
        )


def _count_asked(pack: Pack, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the maximum number of items of each suite that one arm is asked."""
    total, budget = sum(sizes.values()), None if pack.adaptive is None else pack.adaptive.budget
    if budget is None or budget >= total:
        return dict(sizes)
    return {name: max(1, size * budget // total) for name, size in sizes.items()}


def _describe_spending(
    sizes: Mapping[str, int],
    members: list[SuiteSpec],
    looks: int,
    equal: AdaptiveRates,
    harmed: AdaptiveRates,
) -> str:
    most = sum(sizes[suite.id] for suite in members)
    return (
        f"; asked in {looks} rounds, each arm answers at most {most} items, on average "
        f"{equal.items:.0f} and {harmed.items:.0f}"
    )


def _name_suites(members: list[SuiteSpec], sizes: Mapping[str, int]) -> str:
    names = ", ".join(f"{suite.id} ({sizes[suite.id]})" for suite in members)
    return f"suite {names}" if len(members) == 1 else f"pooled suites {names}"


def _describe_differing(rates: Mapping[str, float]) -> str:
    low, high = min(rates.values()), max(rates.values())
    return f"{high:.0%}" if low == high else f"{low:.0%} to {high:.0%}"


def _describe_rates(rates: AdaptiveRates) -> str:
    return (
        f"pass {rates.passed:.0%}, fail {rates.failed:.0%}, stay inconclusive "
        f"{rates.left_open:.0%} of the time"
    )


def _measure_differing_shares(
    opened: OpenPack,
    members: list[SuiteSpec],
    given: float | None,
    measured: Discordance | None,
) -> tuple[dict[str, float], str]:
    """Return how often the arms differ, and whether that is given, measured or assumed.

    Two models that are right on a share p of the items differ on at most 2p(1 - p) of them unless
    their errors avoid each other.
    """
    if given is not None:
        return {suite.id: given for suite in members}, "given"
    if measured is not None and all(suite.id in measured.rates for suite in members):
        return {suite.id: measured.rates[suite.id] for suite in members}, measured.origin
    shares, origin = {}, "assumed"
    for suite in members:
        shares[suite.id], right = ASSUMED_DISCORDANCE, _measure_recorded_accuracy(opened, suite)
        if right is not None and 2 * right * (1 - right) < ASSUMED_DISCORDANCE:
            shares[suite.id] = max(LEAST_DISCORDANCE, 2 * right * (1 - right))
            origin = "at most, by the recorded baseline"
    return shares, origin


def _measure_recorded_accuracy(opened: OpenPack, suite: SuiteSpec) -> float | None:
    targets = opened.pack.targets
    if targets is None or isinstance(targets.baseline, str) or suite.judge is not None:
        return None
    spec = parse_spec(targets.baseline, "targets.baseline")
    if spec.recorded is None:
        return None
    recording, _ = open_recording(opened.folder / spec.recorded)
    score, _ = build_scorer(suite, opened.folder)
    rows = opened.snapshots[suite.id].rows
    replies = [(row, recording.get((row.id, 1))) for row in rows]
    found = [
        score(Scorable(row.id, row.input, row.target, reply.output, make_sample(row))).value
        for row, reply in replies
        if isinstance(reply, Reply)
    ]
    known = [value for value in found if value is not None]
    return sum(known) / len(known) if known else None
