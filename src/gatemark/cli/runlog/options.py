"""Options that several ``gatemark runlog`` commands share, spelled once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from gatemark.cli.options import FiniteRange
from gatemark.exams.runlog.concepts.choose import ExtractorSpec, extractor_spec
from gatemark.exams.runlog.records.names import moment_text

F = TypeVar("F", bound=Callable[..., Any])


def extractor_options(function: F) -> F:
    """Which concept extractor to use, and with what settings."""
    decorators = [
        click.option(
            "--extractor",
            metavar="NAME",
            default="lexicon",
            show_default=True,
            help="Who finds concepts: lexicon, hpo, scispacy, or a plugin's name.",
        ),
        click.option(
            "--lexicon",
            multiple=True,
            metavar="FILE",
            help="JSON Lines of id, name and aliases, in place of the built-in list. Repeatable.",
        ),
        click.option("--model", metavar="NAME", help="The model of the scispacy extractor."),
        click.option(
            "--representation",
            type=click.Choice(["cui", "surface"]),
            default="cui",
            show_default=True,
            help="What counts as a concept: the linked id, or the words themselves.",
        ),
        click.option(
            "--score-threshold",
            type=FiniteRange(0, 1),
            default=0.7,
            show_default=True,
            help="Least score of a linked id.",
        ),
        click.option(
            "--max-k",
            type=click.IntRange(1, 64),
            default=10,
            show_default=True,
            help="Most ids per mention.",
        ),
        click.option(
            "--min-entity-len",
            type=click.IntRange(1, 1000),
            default=3,
            show_default=True,
            help="Fewest characters of a mention.",
        ),
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def stoplists_option(function: F) -> F:
    """``--stoplists``: concepts that say nothing."""
    return click.option(
        "--stoplists",
        metavar="DIR",
        help="Folder with stop_entities.txt and stop_cuis.txt; no stoplists when left out.",
    )(function)


def processes_option(function: F) -> F:
    """``-j`` for commands that share cases out from the first one on."""
    return click.option(
        "-j",
        "--jobs",
        type=click.IntRange(1, 256),
        default=None,
        help="Cases at once; as many as there are cores when left out.",
    )(function)


def cases_option(function: F) -> F:
    """``-j``: how many cases at once."""
    return click.option(
        "-j",
        "--jobs",
        type=click.IntRange(1, 256),
        default=None,
        help="Cases at once, a process for each; one for few cases and else as many as there are "
        "cores when left out.",
    )(function)


def compat_option(function: F) -> F:
    """``--compat``: whose way of joining text."""
    return click.option(
        "--compat",
        type=click.Choice(["gatemark", "source"]),
        default="gatemark",
        show_default=True,
        help="Join deltas as they came, or by spaces as the source does (and read its logs).",
    )(function)


def chosen_extractor(flags: Mapping[str, Any]) -> ExtractorSpec:
    """The extractor that a command's options spell out."""
    return extractor_spec(
        flags["extractor"],
        lexicons=flags["lexicon"],
        model=flags["model"],
        stoplists=flags.get("stoplists"),
        settings={
            "concept_representation": flags["representation"],
            "cui_score_threshold": flags["score_threshold"],
            "max_k": flags["max_k"],
            "min_entity_len": flags["min_entity_len"],
        },
    )


def source_date() -> str | None:
    """The time that reproducible builds agree on, where one is set."""
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    return moment_text(int(text) * 1000) if text.isascii() and text.isdigit() else None
