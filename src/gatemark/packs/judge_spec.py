"""A judge of a pack: a model that grades or compares answers, and the labels that qualify it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from gatemark.evidence.settings_file import about


class JudgeSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model that grades or compares: the target, and the people's labels that qualify it.

    ``labels`` are answers that people graded, or pairs of answers that people compared. A judge may
    gate only if its agreement with them has lower bounds of at least ``qualification_min``, over
    ``min_items`` or more of them.
    """

    target: Annotated[dict[str, Any], about("Target that is asked.")]
    labels: Annotated[
        str,
        about(
            "File of answers that people graded, with `id`, `input`, `output` and `label`; to "
            "compare, `output` has the keys `first` and `second`, and `label` is `FIRST`, `SECOND` "
            "or `TIE`."
        ),
    ]
    qualification_min: Annotated[
        Annotated[float, msgspec.Meta(gt=0, le=1)],
        about("Minimum lower bound of the agreement with people."),
    ] = 0.6
    min_items: Annotated[
        Annotated[int, msgspec.Meta(ge=20, le=1_000_000)],
        about("Minimum number of answers or pairs that people labelled."),
    ] = 50
