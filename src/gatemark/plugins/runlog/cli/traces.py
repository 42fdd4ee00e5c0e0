"""``gatemark runlog traces``: synthetic traces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import click
import msgspec
from msgspec import Meta

from gatemark.cli.options import StrictCommand, json_option
from gatemark.cli.screen import count_progress, show
from gatemark.cli.struct_options import struct_group
from gatemark.core.errors import UsageError
from gatemark.evidence.exam_options import option
from gatemark.plugins.runlog.cli.options import cases_option
from gatemark.plugins.runlog.make_traces import (
    CaseChoice,
    TracesMade,
    TracesRequest,
    make_traces,
    read_case_choice,
    read_case_list,
    read_synthetic_settings,
)
from gatemark.workspace import Workspace


class GeneratorOptions(msgspec.Struct, frozen=True):
    """Settings of the generator: a file, and options that override it."""

    config: Annotated[str | None, option("Generator settings (YAML or JSON).", metavar="FILE")] = (
        None
    )
    cases: Annotated[int | None, Meta(ge=1, description="Number of cases to invent.")] = None
    seed: int | None = None
    domains: tuple[str, ...] = ()


generator_options = struct_group(
    GeneratorOptions,
    seed=click.option("--seed", type=int, help="Random seed of the cases."),
    domains=click.option(
        "--domain",
        "domains",
        multiple=True,
        type=click.Choice(["clinical", "incident", "workshop"]),
        help="Domain that the agents talk about (default: all in turn). Repeatable.",
    ),
)


class SelectionOptions(msgspec.Struct, frozen=True):
    """Which cases to write."""

    dataset_config: Annotated[
        str | None,
        option(
            "Case selection (YAML or JSON): mode (all, list, fixed_subset), cases, count, seed.",
            metavar="FILE",
        ),
    ] = None
    case_list: Annotated[str | None, option("List of the cases to write.", metavar="FILE")] = None
    subset: Annotated[
        int | None, Meta(ge=1, description="Number of cases to sample at random.")
    ] = None
    subset_seed: int = 42

    def choice(self) -> CaseChoice:
        """Return the selection; raise if more than one way to select is given."""
        if sum(map(bool, (self.dataset_config, self.case_list, self.subset))) > 1:
            raise UsageError("--case-list, --subset and --dataset-config exclude each other")
        if self.case_list:
            return CaseChoice(mode="list", cases=read_case_list(self.case_list))
        if self.subset:
            return CaseChoice(mode="fixed_subset", count=self.subset, seed=self.subset_seed)
        return read_case_choice(self.dataset_config)


selection_options = struct_group(
    SelectionOptions,
    subset_seed=click.option(
        "--subset-seed",
        type=int,
        default=42,
        show_default=True,
        help="Random seed of the sample.",
    ),
)


@click.command("traces", cls=StrictCommand)
@struct_group(TracesRequest)
@generator_options
@selection_options
@cases_option
@json_option
def traces_command(
    selection: SelectionOptions,
    generator: GeneratorOptions,
    request: TracesRequest,
    *,
    jobs: int | None,
    json: bool,
) -> None:
    """Make synthetic multi-agent traces and the manifest that pins them.

    The same settings and seed give the same bytes, for any number of processes.

    \b
    Examples:
      gatemark runlog traces --cases 12 --seed 7
      gatemark runlog traces --cases 300 --subset 40 --output traces --manifests manifests
      gatemark runlog traces --stub --dry-run
    """
    options = {
        "cases": generator.cases,
        "seed": generator.seed,
        "domains": generator.domains or None,
    }
    request = msgspec.structs.replace(
        request,
        settings=read_synthetic_settings(generator.config, **options),
        config_files=tuple(path for path in (generator.config, selection.dataset_config) if path),
        is_overruled=any(value is not None for value in options.values()),
        choice=selection.choice(),
    )
    with count_progress("traces") as progress:
        made = make_traces(Workspace(jobs=jobs), request, progress)
    show(made, lambda made: _render_traces(made, request.output), json=json)


def _render_traces(made: TracesMade, output: str) -> Iterator[str]:
    yield f"case list: {made.case_list} ({made.cases} cases)"
    if made.manifest is not None:
        yield f"traces:    {output} ({made.deltas} deltas, {made.turns} turns)"
        yield f"manifest:  {made.manifest}"
        yield f"data set:  {made.trace_dataset_hash}"
