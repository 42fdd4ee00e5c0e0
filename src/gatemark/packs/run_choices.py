"""What the user of ``gatemark run`` chooses, at every door."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from gatemark.core.policy import Waiver
from gatemark.core.result import AssetRef


class StartRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has at every door; the command line, which has the files, offers more."""

    pack: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=4096,
            description="Pack file; on a server, the name of one of its packs.",
        ),
    ]
    limit: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=1_000_000,
                description="Maximum number of items per suite; a limited run never passes.",
            ),
        ]
        | None
    ) = None


class RunChoices(msgspec.Struct, frozen=True):
    """Options of a run."""

    jobs: int = 1
    resume: bool = False
    cache: bool = False
    limit: int | None = None
    candidate: Mapping[str, object] | None = None
    baseline: Mapping[str, object] | str | None = None
    names: Mapping[str, AssetRef] = {}
    """The registered version that an arm is, if the user vouches for it."""
    answered_at: datetime | None = None
    """When recorded answers were given, as stated by the user for answers that do not say."""
    waivers: tuple[Waiver, ...] = ()
