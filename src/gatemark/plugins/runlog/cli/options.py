"""Options that several ``gatemark runlog`` commands share."""

from __future__ import annotations

import os
from typing import Annotated, Literal

import click
import msgspec
from msgspec import Meta

from gatemark.cli.struct_options import struct_group
from gatemark.evidence.exam_options import option
from gatemark.plugins.runlog.concepts.choose import ExtractorSpec
from gatemark.plugins.runlog.concepts.port import ConceptSettings, SourceChoices
from gatemark.plugins.runlog.records.names import format_moment


class ExtractorOptions(msgspec.Struct, frozen=True):
    """Which concept extractor to use, and with what settings."""

    name: Annotated[
        str,
        option(
            "Concept extractor: lexicon, hpo, scispacy, or the name of a plugin.",
            "--extractor",
            metavar="NAME",
        ),
    ] = "lexicon"
    lexicons: Annotated[
        tuple[str, ...],
        option(
            "JSON Lines of id, name and aliases, instead of the built-in list. Repeatable.",
            "--lexicon",
            metavar="FILE",
        ),
    ] = ()
    model: Annotated[
        str | None,
        option("Model of the scispacy extractor.", "--model", "--extractor-model", metavar="NAME"),
    ] = None
    representation: Annotated[
        Literal["cui", "surface"],
        option("What counts as a concept: the linked id, or the words themselves."),
    ] = "cui"
    score_threshold: Annotated[
        float, Meta(ge=0, le=1, description="Minimum score of a linked id.")
    ] = 0.7
    max_k: Annotated[int, Meta(ge=1, le=64, description="Maximum number of ids per mention.")] = 10
    min_entity_len: Annotated[
        int, Meta(ge=1, le=1000, description="Minimum length of a mention in characters.")
    ] = 3

    def spec(self, stoplists: str | None = None) -> ExtractorSpec:
        """Return the extractor that these options describe."""
        return ExtractorSpec(
            self.name,
            SourceChoices(lexicons=self.lexicons, model=self.model),
            ConceptSettings(
                concept_representation=self.representation,
                cui_score_threshold=self.score_threshold,
                max_k=self.max_k,
                min_entity_len=self.min_entity_len,
            ),
            stoplists,
        )


extractor_options = struct_group(ExtractorOptions)
stoplists_option = click.option(
    "--stoplists",
    metavar="DIR",
    help="Folder with stop_entities.txt and stop_cuis.txt (default: no stoplists).",
)
cases_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1, 256),
    help="Number of cases at once, a process for each (default: 1 for few cases, else the "
    "number of cores).",
)
mode_option = click.option(
    "--mode",
    "--strictness",
    type=click.Choice(["strict", "inspect"]),
    default="strict",
    show_default=True,
    help="Whether odd order, times and turns of a trace are errors or warnings.",
)


def read_source_date() -> str | None:
    """Return the time of ``SOURCE_DATE_EPOCH``, if it is set."""
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    return format_moment(int(text) * 1000) if text.isascii() and text.isdigit() else None
