"""Options that several ``gatemark runlog`` commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal, TypeVar

import click
import msgspec

from gatemark.cli.options import FiniteRange, OptionGroup
from gatemark.exams.runlog.concepts.choose import ExtractorSpec, extractor_spec
from gatemark.exams.runlog.records.names import moment_text

F = TypeVar("F", bound=Callable[..., object])


class ExtractorOptions(msgspec.Struct, frozen=True):
    """Which concept extractor to use, and with what settings."""

    name: str
    lexicons: tuple[str, ...]
    model: str | None
    representation: Literal["cui", "surface"]
    score_threshold: float
    max_k: int
    min_entity_len: int

    def spec(self, stoplists: str | None = None) -> ExtractorSpec:
        """Return the extractor that these options describe."""
        return extractor_spec(
            self.name,
            lexicons=self.lexicons,
            model=self.model,
            stoplists=stoplists,
            settings={
                "concept_representation": self.representation,
                "cui_score_threshold": self.score_threshold,
                "max_k": self.max_k,
                "min_entity_len": self.min_entity_len,
            },
        )


extractor_options = OptionGroup(
    ExtractorOptions,
    name=click.option(
        "--extractor",
        metavar="NAME",
        default="lexicon",
        show_default=True,
        help="Concept extractor: lexicon, hpo, scispacy, or the name of a plugin.",
    ),
    lexicons=click.option(
        "--lexicon",
        multiple=True,
        metavar="FILE",
        help="JSON Lines of id, name and aliases, instead of the built-in list. Repeatable.",
    ),
    model=click.option(
        "--model", "--extractor-model", metavar="NAME", help="Model of the scispacy extractor."
    ),
    representation=click.option(
        "--representation",
        type=click.Choice(["cui", "surface"]),
        default="cui",
        show_default=True,
        help="What counts as a concept: the linked id, or the words themselves.",
    ),
    score_threshold=click.option(
        "--score-threshold",
        type=FiniteRange(0, 1),
        default=0.7,
        show_default=True,
        help="Minimum score of a linked id.",
    ),
    max_k=click.option(
        "--max-k",
        type=click.IntRange(1, 64),
        default=10,
        show_default=True,
        help="Maximum number of ids per mention.",
    ),
    min_entity_len=click.option(
        "--min-entity-len",
        type=click.IntRange(1, 1000),
        default=3,
        show_default=True,
        help="Minimum length of a mention in characters.",
    ),
)
stoplists_option = click.option(
    "--stoplists",
    metavar="DIR",
    help="Folder with stop_entities.txt and stop_cuis.txt (default: no stoplists).",
)
processes_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1, 256),
    help="Number of cases at once (default: the number of cores).",
)
cases_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1, 256),
    help="Number of cases at once, a process for each (default: 1 for few cases, else the "
    "number of cores).",
)
compat_option = click.option(
    "--compat",
    "--compat-mode",
    type=click.Choice(["gatemark", "source"]),
    default="gatemark",
    show_default=True,
    help="Compatibility mode: join deltas as they came, or by spaces as the source does (and "
    "read its logs).",
)
source_logs_option = click.option(
    "--compat",
    "--compat-mode",
    type=click.Choice(["gatemark", "source"]),
    default="gatemark",
    show_default=True,
    help="Compatibility mode: source also reads logs whose case ids end with .trace, and null "
    "filters.",
)
mode_option = click.option(
    "--mode",
    "--strictness",
    type=click.Choice(["strict", "inspect"]),
    default="strict",
    show_default=True,
    help="Whether odd order, times and turns of a trace are errors or warnings.",
)


def source_date() -> str | None:
    """Return the time of ``SOURCE_DATE_EPOCH``, if it is set."""
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    return moment_text(int(text) * 1000) if text.isascii() and text.isdigit() else None
