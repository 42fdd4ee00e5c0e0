"""When the candidate of a run answered: by its answers and records, or as somebody states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated

import msgspec

from gatemark.core.errors import UsageError
from gatemark.core.result import AnswerTime, Result, answer_time_of
from gatemark.packs.arm_answers import name_lines
from gatemark.packs.asked_arms import AskedArms
from gatemark.packs.pack_file import CANDIDATE
from gatemark.packs.run import Run


def find_answer_time(run: Run, asked: AskedArms) -> AnswerTime | None:
    """Return when the candidate answered, if that is known or stated.

    What is known bounds what is stated: nobody makes dated records younger.
    """
    candidate = asked.arms.get(CANDIDATE)
    known = [exam.answered_at for exam in run.exams.values() if exam.answered_at is not None]
    is_recorded = len(known) == len(run.exams) > 0
    if candidate is not None:
        answered_at: datetime | None = candidate.answered_at
        is_recorded = answered_at is not None
        known.extend([] if answered_at is None else [answered_at])
    recorded = min(known) if is_recorded else None
    stated = run.claims.stated_time
    if stated is None:
        return run.claims.earlier_time if recorded is None else AnswerTime(recorded)
    if recorded is not None:
        raise UsageError(
            f"--answered-at is for answers that do not say when they were given; these are from "
            f"{recorded:%Y-%m-%d %H:%M:%SZ}"
        )
    return msgspec.structs.replace(stated, at=min([stated.at, *known]))


class _Timed(msgspec.Struct):
    answered_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


def list_later_times(result: Result, data: Mapping[str, bytes]) -> Iterator[str]:
    """Yield how a result makes its answers younger than they are; ``data`` are its files."""
    said = answer_time_of(result)
    if said is None:
        return
    known = {"its end": result.finished_at}
    for name, lines in data.items():
        if name.endswith(name_lines("", CANDIDATE)):
            times = [one.answered_at for one in msgspec.json.Decoder(_Timed).decode_lines(lines)]
            dated = [moment for moment in times if moment is not None]
            known |= {f"the oldest of {name}": min(dated)} if dated else {}
    for what, moment in known.items():
        if said.at > moment:
            yield (
                f"its answers are said to be from {said.at:%Y-%m-%d %H:%M:%SZ}, "
                f"and {what} is from {moment:%Y-%m-%d %H:%M:%SZ}"
            )
