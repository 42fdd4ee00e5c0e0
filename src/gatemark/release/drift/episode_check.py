"""Compare the tables of episodes and acts with the ledger events. No I/O.

Tables are written before the ledger, so they may be ahead of it: an episode without an event is not
an error. An episode in an event must be in the table, at that level or a worse one, and open or
closed as recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from gatemark.core.canonical import digest_document
from gatemark.core.errors import InvalidValueError
from gatemark.core.stored import convert_stored
from gatemark.ledger.event import Event
from gatemark.ledger.event_kinds import DRIFT_SIGNAL
from gatemark.ledger.stored_rows import Finding, make_finding, parse_stored_moment, plain_json
from gatemark.release.drift.events import DriftRecorded
from gatemark.release.drift.signal import LEVELS, Window
from gatemark.release.drift.table_digest import WatchState

NOTIFIED: Final = "tell"
"""Act: the level of an episode was appended to the ledger."""
CLOSED: Final = "close"
"""Act: the end of an episode was appended to the ledger."""
KEPT: Final = "keep"
"""Act: a drifting version stays live because no other version could take over."""
ALREADY: Final = "was so already"
"""Outcome prefix in 0.1.0 of an act that changed nothing; it may cite no event."""
SHORT: Final = 19
"""Number of characters of an episode id in messages."""


class EpisodeRow(NamedTuple):
    """A stored episode, not decoded; the fields are its columns."""

    id: str
    asset: str
    level: str
    is_open: bool
    opened_at: str
    document: bytes
    baseline: bytes


class ActRow(NamedTuple):
    """A stored act, not decoded; the fields are its columns."""

    episode: str
    act: str
    level: str
    at: str
    outcome: str
    events: str


class EpisodeOpened(NamedTuple):
    """An event that recorded an episode at a level, and its content."""

    seq: int
    level: str
    payload: Mapping[str, object]


class EpisodeClosed(NamedTuple):
    """The event that recorded the end of an episode, and the reason."""

    seq: int
    because: object


class LedgerEpisode:
    """One episode as the ledger records it."""

    def __init__(self, asset: str, metric: str) -> None:
        self.asset, self.metric = asset, metric
        self.first: EpisodeOpened | None = None
        self.worst: EpisodeOpened | None = None
        self.closing: EpisodeClosed | None = None

    def learn(self, seq: int, payload: Mapping[str, object]) -> None:
        """Add a drift signal about this episode."""
        if "closed_because" in payload:
            self.closing = EpisodeClosed(seq, payload["closed_because"])
            return
        if "signal" not in payload:
            # The level changed while the episode was open.
            return
        opening = EpisodeOpened(seq, str(payload["level"]), payload)
        self.first = self.first or opening
        if self.worst is None or _rank_level(opening.level) > _rank_level(self.worst.level):
            self.worst = opening
        self.closing = None


class LedgerEpisodes:
    """All episodes in the ledger, collected from drift signals in order."""

    def __init__(self) -> None:
        self.by_id: dict[str, LedgerEpisode] = {}

    def learn(self, event: Event, payload: Mapping[str, object]) -> None:
        """Add a drift signal; signals without an episode are ignored."""
        identity = payload.get("episode")
        if isinstance(identity, str):
            known = self.by_id.get(identity)
            if known is None:
                recorded = LedgerEpisode(str(payload.get("asset")), str(payload.get("metric")))
                known = self.by_id[identity] = recorded
            known.learn(event.seq, payload)

    def compared(self, rows: Iterable[EpisodeRow], *, is_ahead: bool) -> Iterator[Finding]:
        """Yield the differences between the table and the ledger.

        ``is_ahead`` says that the table is known to be as the last probe left it. It may then have
        closed episodes that the next probe will record.
        """
        missing = {
            identity: recorded
            for identity, recorded in self.by_id.items()
            if recorded.first is not None
        }
        for row in rows:
            recorded = missing.pop(row.id, None)
            seq = None if recorded is None or recorded.first is None else recorded.first.seq
            name = _name_episode(row.id, recorded)
            document = plain_json(row.document)
            if not isinstance(document, dict):
                yield make_finding(seq, "episodes", f"{name} cannot be read")
                continue
            for what in _compare_columns(row, document):
                yield make_finding(seq, "episodes", f"{name}: {what}")
            if recorded is not None:
                for number, what in _compare_documents(recorded, document, is_ahead=is_ahead):
                    yield make_finding(number, "episodes", f"{name}: {what}")
        for identity, recorded in missing.items():
            if recorded.first is not None:
                yield make_finding(
                    recorded.first.seq,
                    "episodes",
                    f"{_name_episode(identity, recorded)} is missing",
                )

    def compare_acts(
        self,
        rows: Iterable[ActRow],
        cited: Mapping[int, tuple[Event, Mapping[str, object]]],
        since: int | None,
    ) -> Iterator[Finding]:
        """Yield what is wrong with the acts, given the events that they cite.

        ``since`` is the first event of a build whose acts always cite one.
        """
        for row in rows:
            recorded = self.by_id.get(row.episode)
            first = None if recorded is None else recorded.first
            name = f"{row.act} ({row.level}) of {_name_episode(row.episode, recorded)}"
            seq = None if first is None else first.seq
            is_older = since is None or (seq is not None and seq < since)
            for what in _check_act(row, recorded, cited, may_cite_none=is_older):
                yield make_finding(seq, "episode_acts", f"{name}: {what}")


def check_recorded(state: WatchState, last: tuple[int, DriftRecorded] | None) -> Iterator[Finding]:
    """Yield a finding for each table that differs from the last recording."""
    if last is None:
        return
    seq, said = last
    for table, found, left in (
        ("drift_levels", state.levels, said.levels),
        ("episodes", state.episodes, said.episodes),
    ):
        if found.digest != left.after:
            rows = f"{found.rows} rows, {left.rows} recorded"
            yield make_finding(seq, table, f"was edited since it was recorded ({rows})")


def check_succession(
    before: tuple[int, DriftRecorded], seq: int, said: DriftRecorded
) -> Iterator[Finding]:
    """Yield a finding for each table that changed between two recordings."""
    number, earlier = before
    for table, found, left in (
        ("drift_levels", said.levels, earlier.levels),
        ("episodes", said.episodes, earlier.episodes),
    ):
        if found.before != left.after:
            yield make_finding(seq, table, f"was edited between event {number} and this one")


def read_cited_numbers(row: ActRow) -> tuple[int, ...] | None:
    """Return the numbers of the events that an act cites, or None if unreadable."""
    try:
        return msgspec.json.decode(row.events, type=tuple[int, ...])
    except (msgspec.MsgspecError, TypeError):
        return None


def _check_act(
    row: ActRow,
    recorded: LedgerEpisode | None,
    cited: Mapping[int, tuple[Event, Mapping[str, object]]],
    *,
    may_cite_none: bool,
) -> Iterator[str]:
    numbers = read_cited_numbers(row)
    if numbers is None:
        yield "its events cannot be read"
        return
    if recorded is None:
        yield "the ledger does not know this episode"
        return
    is_telling = row.act in (NOTIFIED, CLOSED)
    is_excused = may_cite_none and not is_telling and row.outcome.startswith(ALREADY)
    if not numbers and not is_excused:
        yield "cites no event"
    for number in numbers:
        if number not in cited:
            yield f"cites event {number}, which does not exist"
            continue
        event, payload = cited[number]
        is_right = event.subject == recorded.asset
        if is_telling or event.kind == DRIFT_SIGNAL:
            is_right = event.kind == DRIFT_SIGNAL and payload.get("episode") == row.episode
        if is_telling:
            is_over = "closed_because" in payload
            is_right &= payload.get("level") == row.level and is_over == (row.act == CLOSED)
        if not is_right:
            yield f"cites event {number}, which is not about it"


def _compare_columns(row: EpisodeRow, document: Mapping[str, object]) -> Iterator[str]:
    """Yield columns that contradict the document in the same row."""
    opened = document.get("opened")
    start = opened.get("start") if isinstance(opened, dict) else None
    pairs = (
        ("id", row.id, document.get("id")),
        ("asset", row.asset, document.get("asset")),
        ("level", row.level, document.get("level")),
        ("is_open", bool(row.is_open), document.get("closed_at") is None),
        ("opened_at", parse_stored_moment(row.opened_at), parse_stored_moment(start)),
    )
    for column, kept, said in pairs:
        if kept != said:
            yield f"column {column} says {getattr(row, column)!r}, its document {said!s}"
    if row.baseline and _digest_baseline(row.baseline) != document.get("baseline_digest"):
        yield "its baseline does not match the digest in its document"


def _digest_baseline(stored: object) -> str | None:
    """Return the digest of a stored baseline, or None if it cannot be read."""
    try:
        return digest_document(stored) if isinstance(stored, bytes) else None
    except InvalidValueError:
        return None


def _compare_documents(
    recorded: LedgerEpisode, document: Mapping[str, object], *, is_ahead: bool
) -> Iterator[tuple[int, str]]:
    """Yield the differences between the document and the ledger, each with its event number."""
    first, worst = recorded.first, recorded.worst
    if first is None or worst is None:
        return
    pairs = (
        ("asset", recorded.asset, document.get("asset")),
        ("metric", recorded.metric, document.get("metric")),
        ("opening window", first.payload.get("opened"), _format_window(document.get("opened"))),
        ("baseline", first.payload.get("baseline_ids"), document.get("baseline_ids")),
        ("baseline", first.payload.get("baseline_digest"), document.get("baseline_digest")),
        ("policy", first.payload.get("drift_policy_digest"), document.get("policy_digest")),
    )
    for word, said, kept in pairs:
        if said != kept:
            yield first.seq, f"has a different {word} than in the ledger"
    level = str(document.get("level"))
    if _rank_level(level) < _rank_level(worst.level):
        yield worst.seq, f"is {level} in the table, {worst.level} in the ledger"
    elif level == worst.level:
        yield from _compare_signal(worst, document)
    is_closed = document.get("closed_at") is not None
    if recorded.closing is not None:
        if not is_closed:
            yield recorded.closing.seq, "is open in the table, closed in the ledger"
        elif document.get("closed_because") != recorded.closing.because:
            yield recorded.closing.seq, "was closed for another reason than in the ledger"
    elif is_closed and not is_ahead:
        yield worst.seq, "is closed in the table, open in the ledger"


def _compare_signal(
    worst: EpisodeOpened, document: Mapping[str, object]
) -> Iterator[tuple[int, str]]:
    """Compare the signal of the worst level with the ledger; newer builds may add fields."""
    said, kept = worst.payload.get("signal"), document.get("signal")
    if not isinstance(said, dict) or not isinstance(kept, dict):
        yield worst.seq, "has no signal"
        return
    if any(said[key] != kept[key] for key in said.keys() & kept.keys()):
        yield worst.seq, "has a different signal than in the ledger"
    if worst.level == "BREACH" and document.get("breached") != kept.get("window"):
        yield worst.seq, "breached in a different window than in the ledger"


def _name_episode(identity: str, recorded: LedgerEpisode | None) -> str:
    about = "" if recorded is None else f"{recorded.asset} {recorded.metric} "
    return f"episode {about}({identity[:SHORT]})"


def _rank_level(level: str) -> int:
    return list(LEVELS).index(level) if level in LEVELS else -1


def _format_window(plain: object) -> str | None:
    """Return the id of a window as events write it."""
    try:
        return convert_stored(plain, Window).id
    except msgspec.ValidationError:
        return None
