"""The arms of a run after they were asked: who each is, its answers, and the calls they took."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from gatemark.packs.arm_answers import ArmAnswers
from gatemark.packs.arms import ArmSource
from gatemark.packs.graders import Graders
from gatemark.packs.judge_qualification import SuiteQualification


class AskedArm(msgspec.Struct, frozen=True):
    """One arm after it was asked."""

    source: ArmSource
    answers: ArmAnswers
    call_count: int
    cost: float | None
    models: tuple[str, ...]
    answered_at: datetime | None = None
    """When the oldest answer was given, or None if an answer does not say."""
    reused_count: int = 0
    """Number of replies reused from an earlier run."""


class AskedArms(msgspec.Struct, frozen=True):
    """All arms after they were asked, with the judges that graded their answers."""

    arms: Mapping[str, AskedArm]
    graders: Graders
    qualifications: Mapping[str, SuiteQualification]
