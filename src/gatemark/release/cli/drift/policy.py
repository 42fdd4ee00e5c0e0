"""``gatemark drift policy``: print or simulate a drift policy."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from gatemark.cli.options import StrictCommand, json_option
from gatemark.cli.screen import say, show
from gatemark.release.cli.drift.probe import policy_options
from gatemark.release.drift.explain import PolicyExplanation, explain
from gatemark.release.drift.judging.policy import DriftPolicy
from gatemark.release.drift.judging.simulate import RAMP_SD, SHIFTS, WITHIN
from gatemark.release.drift.policy_file import format_policy

SEED = 20_260_301


@click.command("policy", cls=StrictCommand)
@policy_options
@click.option(
    "--explain",
    "is_explained",
    is_flag=True,
    help="Simulate what the policy does to healthy assets.",
)
@click.option("--seed", type=click.IntRange(0), default=SEED, help="Random seed.")
@click.option(
    "--series",
    type=click.IntRange(20, 20_000),
    default=400,
    help="Number of healthy series per watch.",
)
@json_option
def policy_command(
    policy: DriftPolicy, *, is_explained: bool, seed: int, series: int, json: bool
) -> None:
    """Print a drift policy, or what it does to healthy assets.

    With --explain, every watch judges simulated healthy series with the real code, and its false
    warnings and demotions are counted. Watches of a number also judge series that are correlated,
    seasonal or heavy-tailed, and series with a shift. The same seed gives the same figures.

    \b
    Examples:
      gatemark drift policy > drift.yaml
      gatemark drift policy --policy drift.yaml --explain
    """
    if is_explained:
        say("simulating the policy; 400 series take about half a minute", err=True)
        show(explain(policy, seed=seed, series=series), _format_explanation, json=json)
    else:
        document = {**msgspec.to_builtins(policy), "digest": policy.digest}
        show(document, lambda _: format_policy(policy), json=json)


def _format_explanation(found: PolicyExplanation) -> Iterator[str]:
    size = f"{found.series} healthy series over {found.days} days per watch"
    yield f"{found.policy} ({found.mode}), {size}, seed {found.seed}"
    among = f"{found.series} IN EACH TICK"
    yield "\nfalse alarms of one metric per month"
    yield f"{'':<35} {among:>20} {'ALONE IN ITS TICK':>20}"
    pair = f"{'WARNINGS':>9} {'DEMOTIONS':>10}"
    yield f"{'METRIC':<22} {'DETECTOR':<12} {pair} {pair}"
    for watch in found.watches:
        yield (
            f"{watch.metric:<22} {watch.detector:<12} {watch.false_warnings_per_month:>9.3f} "
            f"{watch.false_demotions_per_month:>10.4f} "
            f"{watch.alone_false_warnings_per_month:>9.3f} "
            f"{watch.alone_false_demotions_per_month:>10.4f}"
        )
    yield "\nexpected false demotions of a healthy asset"
    yield f"{'':<30} {among:>20} {'ALONE IN ITS TICK':>20}"
    pair = f"{'PER MONTH':>10} {'PER YEAR':>9}"
    yield f"{'CLASS':<22} {'METRICS':>7} {pair} {pair}"
    for one in found.classes:
        yield (
            f"{one.asset_class:<22} {len(one.metrics):>7} {one.false_demotions_per_month:>10.4f} "
            f"{one.false_demotions_per_year:>9.3f} {one.alone_false_demotions_per_month:>10.4f} "
            f"{one.alone_false_demotions_per_year:>9.3f}"
        )
    yield "\nfalse alarms of a metric of one number, alone in its tick, per year"
    yield f"{'HEALTHY SERIES':<22} {'WARNINGS':>9} {'DEMOTIONS':>10}"
    for kind in found.kinds:
        warnings, demotions = kind.false_warnings_per_year, kind.false_demotions_per_year
        yield f"{kind.kind:<22} {warnings:>9.3f} {demotions:>10.3f}"
    yield "\nshare of changed series that are found (and demoted) after a change"
    yield f"{'CHANGE':<22}" + "".join(f"{f'{days} DAYS':>18}" for days in WITHIN)
    for change in (*SHIFTS, None):
        name = f"ramp of {RAMP_SD:g} sd a day" if change is None else f"{change:g} sd that stay"
        cells = [one for one in found.detection if one.change == change]
        yield f"{name:<22}" + "".join(f"{f'{c.found:.0%} ({c.demoted:.0%})':>18}" for c in cells)
