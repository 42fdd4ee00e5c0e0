"""What is still worth remembering when windows that were judged have to be judged again."""

from __future__ import annotations

import msgspec

from gatemark.drift.judging.memory import SeriesMemory


def under_new_policy(kept: SeriesMemory) -> SeriesMemory:
    """What counts when other lines are drawn: open trouble, fresh starts, and what is settled.

    All other windows within reach are judged again; what they come to joins the episode.
    """
    return msgspec.structs.replace(
        kept,
        judged=kept.settled,
        calm=0,
        warn_trail=b"",
        breach_trail=b"",
        frozen=None,
        signal=None,
        seen=b"",
        is_anew=True,
        looked=kept.judged,
    )


def after_a_change(
    kept: SeriesMemory, first: int, opened: int | None, sustained: int
) -> SeriesMemory:
    """What counts when the window ``first`` was written after it had been judged.

    It and all that follow are judged again, after as many before it as a breach looks back on.
    ``opened`` is the window that opened the episode. An episode that was there before goes on with
    its baseline; one that the change may have to do with is joined at the end.
    """
    judged = max(first - 2 - sustained, kept.settled)
    again = msgspec.structs.replace(
        kept,
        judged=judged,
        calm=0,
        warn_trail=b"",
        breach_trail=b"",
        signal=None,
        seen=b"",
        looked=kept.judged,
    )
    used = kept.frozen.number if kept.frozen is not None else ()
    if opened is not None and opened < first and all(number < first for number in used):
        return msgspec.structs.replace(again, judged=max(judged, opened - 1))
    return msgspec.structs.replace(again, frozen=None, is_anew=True)
