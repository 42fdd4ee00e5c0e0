"""What the user of ``gatemark run`` chooses, at every door."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from gatemark.core.policy import Waiver
from gatemark.core.result import AssetRef


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
