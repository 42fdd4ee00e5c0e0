"""``gatemark runlog traces``: synthetic traces."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from gatemark.cli.options import OptionGroup, StrictCommand, json_option
from gatemark.cli.runlog.options import cases_option
from gatemark.cli.screen import count_progress, show
from gatemark.core.errors import UsageError
from gatemark.exams.runlog.make_traces import (
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

    config: str | None
    cases: int | None
    seed: int | None
    domains: tuple[str, ...]


generator_options = OptionGroup(
    GeneratorOptions,
    config=click.option("--config", metavar="FILE", help="Generator settings (YAML or JSON)."),
    cases=click.option("--cases", type=click.IntRange(1), help="Number of cases to invent."),
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

    dataset_config: str | None
    case_list: str | None
    subset: int | None
    subset_seed: int

    def choice(self) -> CaseChoice:
        """Return the selection; raise if more than one way to select is given."""
        if sum(map(bool, (self.dataset_config, self.case_list, self.subset))) > 1:
            raise UsageError("--case-list, --subset and --dataset-config exclude each other")
        if self.case_list:
            return CaseChoice(mode="list", cases=read_case_list(self.case_list))
        if self.subset:
            return CaseChoice(mode="fixed_subset", count=self.subset, seed=self.subset_seed)
        return read_case_choice(self.dataset_config)


selection_options = OptionGroup(
    SelectionOptions,
    dataset_config=click.option(
        "--dataset-config",
        metavar="FILE",
        help="Case selection (YAML or JSON): mode (all, list, fixed_subset), cases, count, seed.",
    ),
    case_list=click.option("--case-list", metavar="FILE", help="List of the cases to write."),
    subset=click.option(
        "--subset", type=click.IntRange(1), help="Number of cases to sample at random."
    ),
    subset_seed=click.option(
        "--subset-seed",
        type=int,
        default=42,
        show_default=True,
        help="Random seed of the sample.",
    ),
)


@click.command("traces", cls=StrictCommand)
@click.option("--output", default="data/traces", show_default=True, help="Folder for the traces.")
@click.option(
    "--manifests",
    default="data/manifests",
    show_default=True,
    help="Folder for the case list and the manifest.",
)
@generator_options
@selection_options
@click.option("--limit", type=click.IntRange(1), help="Maximum number of cases.")
@click.option(
    "--stub",
    "--stub-mode",
    "stub",
    is_flag=True,
    help="Write stub traces, marked as placeholders of missing ones.",
)
@click.option("--dry-run", is_flag=True, help="Write only the case list.")
@click.option("--created-at", metavar="TIME", help="Time to write into the manifest.")
@cases_option
@json_option
def traces_command(
    selection: SelectionOptions,
    generator: GeneratorOptions,
    *,
    output: str,
    manifests: str,
    limit: int | None,
    stub: bool,
    dry_run: bool,
    created_at: str | None,
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
    settings = read_synthetic_settings(
        generator.config,
        cases=generator.cases,
        seed=generator.seed,
        domains=generator.domains or None,
    )
    request = TracesRequest(
        output=output,
        manifests=manifests,
        settings=settings,
        config_files=tuple(path for path in (generator.config, selection.dataset_config) if path),
        is_overruled=(
            generator.cases is not None or generator.seed is not None or bool(generator.domains)
        ),
        choice=selection.choice(),
        limit=limit,
        stub=stub,
        dry_run=dry_run,
        created_at=created_at,
    )
    with count_progress("traces") as progress:
        made = make_traces(Workspace(jobs=jobs), request, progress)
    show(made, lambda made: _lines(made, output), json=json)


def _lines(made: TracesMade, output: str) -> Iterator[str]:
    yield f"case list: {made.case_list} ({made.cases} cases)"
    if made.manifest is not None:
        yield f"traces:    {output} ({made.deltas} deltas, {made.turns} turns)"
        yield f"manifest:  {made.manifest}"
        yield f"data set:  {made.trace_dataset_hash}"
