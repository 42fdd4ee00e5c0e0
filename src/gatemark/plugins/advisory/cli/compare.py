"""``gatemark advisory trend`` and ``diff``: runs side by side."""

from __future__ import annotations

from collections.abc import Iterator

import click

from gatemark.cli.options import StrictCommand, json_option
from gatemark.cli.screen import show
from gatemark.core.errors import ExitCode
from gatemark.plugins.advisory.dry_run.compare_runs import (
    ChangedInput,
    LaneDiff,
    RunDiff,
    RunTrend,
    compare_runs,
    derive_trend,
)

SHOWN_INPUTS = 20
policy_option = click.option(
    "--policy", metavar="FILE", help="Advisory policy with the labels of the lanes."
)


@click.command("trend", cls=StrictCommand)
@click.argument("folder")
@policy_option
@json_option
def trend_command(folder: str, *, policy: str | None, json: bool) -> int:
    """Show the numbers of every lane over the runs of a folder.

    FOLDER is the --out of a dry run, or any folder of decision files. Runs are in order of time,
    and records that occur twice count once.

    \b
    Examples:
      gatemark advisory trend dry-run
    """
    show(derive_trend(folder, policy), _render_trend, json=json)
    return ExitCode.PASS


def _render_trend(trend: RunTrend) -> Iterator[str]:
    for lane, points in trend.lanes.items():
        yield lane
        models: tuple[str, ...] = points[0].models
        for point in points:
            rate = "n/a" if point.agreement_rate is None else f"{point.agreement_rate:.3f}"
            within = ""
            if point.interval is not None:
                within = f" ({point.interval[0]:.2f} to {point.interval[1]:.2f})"
            other = "" if point.models == models else f"; model: {', '.join(point.models)}"
            models = point.models
            yield (
                f"  {point.began}  {point.run}: {point.records} records, agreement {rate}{within}, "
                f"uncertain {point.uncertain_rate:.3f}, {point.false_positives} false positives, "
                f"{point.false_negatives} false negatives{other}"
            )


@click.command("diff", cls=StrictCommand)
@click.argument("before")
@click.argument("after")
@policy_option
@json_option
def diff_command(before: str, after: str, *, policy: str | None, json: bool) -> int:
    """Show which inputs two runs answered differently.

    BEFORE and AFTER are decision files of one run each, or folders with a decisions.jsonl. Inputs
    that agreed before and do not now are listed first. Exit code 0, whatever differs.

    \b
    Examples:
      gatemark advisory diff last-week/decisions.jsonl dry-run/decisions.jsonl
    """
    show(compare_runs(before, after, policy), _render_diff, json=json)
    return ExitCode.PASS


def _render_diff(found: RunDiff) -> Iterator[str]:
    for lane, diff in found.lanes.items():
        yield (
            f"{lane}: {len(diff.lost)} lost, {len(diff.gained)} gained, {len(diff.changed)} "
            f"changed otherwise, {diff.same} the same"
        )
        yield from _render_lane(diff)


def _render_lane(diff: LaneDiff) -> Iterator[str]:
    before, after = diff.models
    if before != after:
        yield f"  model: {', '.join(before) or 'none'} before, {', '.join(after) or 'none'} after"
    for word, inputs in (("lost", diff.lost), ("gained", diff.gained), ("changed", diff.changed)):
        yield from (f"  {word} {_render_input(one)}" for one in inputs[:SHOWN_INPUTS])
        if len(inputs) > SHOWN_INPUTS:
            yield f"  and {len(inputs) - SHOWN_INPUTS} more {word}; --json lists all"
    for word, names in (("before", diff.only_before), ("after", diff.only_after)):
        if names:
            more = f" and {len(names) - SHOWN_INPUTS} more" if len(names) > SHOWN_INPUTS else ""
            yield f"  only {word}: {', '.join(names[:SHOWN_INPUTS])}{more}"


def _render_input(one: ChangedInput) -> str:
    expected = "" if one.expected is None else f", expected {one.expected}"
    return (
        f"{one.fixture_id}: {one.before} was {one.before_category}, "
        f"{one.after} is {one.after_category}{expected}"
    )
