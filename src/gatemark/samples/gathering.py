"""Collect the rows of another tool's log: the parts that all importers share."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from gatemark.core.canonical import digest
from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.core.text import did_you_mean
from gatemark.samples.foreign_json import NOT_FINITE, decode, find_value
from gatemark.samples.importer import (
    ClaimCheck,
    ForeignError,
    ForeignFile,
    ForeignSample,
    Imported,
    Importer,
    LogExperiment,
    ReadOptions,
    Refusal,
)
from gatemark.samples.records import SampleOrigin, ScoreSetting

Log = TypeVar("Log")
Raw = TypeVar("Raw")
Row = TypeVar("Row")

MESSAGE_LENGTH: Final = 2000
ID_LENGTH: Final = 512
SHOWN_LENGTH: Final = 80
_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")
_LISTED: Final = 5
_LARGEST_EXACT: Final = 2**53
_EXCEPTION: Final = re.compile(r"\s*([A-Za-z_][\w.]*(?:Error|Exception|Timeout|Exit|Interrupt))\b")


def score_number(value: object) -> float | None:
    """Return a score as a number: true is 1, false is 0, and any other non-number is None."""
    if not isinstance(value, bool | int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def sum_tokens(*counts: object) -> int | None:
    """Return the sum of token counts, or None if one is missing."""
    numbers = [score_number(count) for count in counts]
    return None if not numbers or None in numbers else int(math.fsum(n or 0.0 for n in numbers))


def read_id(value: object) -> str | None:
    """Return an id as one line of text, or None if it cannot name a sample."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = str(value).strip()
    return text if 0 < len(text) <= ID_LENGTH and not _CONTROL.search(text) else None


def shorten_value(value: object) -> str:
    """Return a short text for a message; nested values are not expanded."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= SHOWN_LENGTH else text[:SHOWN_LENGTH] + "…"


def make_error(message: object, kind: str) -> ForeignError:
    """Return an error; its kind is the exception's name if the message starts with one."""
    text = message if isinstance(message, str) else shorten_value(message)
    named = _EXCEPTION.match(text)
    if len(text) > MESSAGE_LENGTH:
        text = text[:MESSAGE_LENGTH] + "…"
    return ForeignError(kind=named.group(1) if named else kind, message=text or kind)


def _write_setting(value: object) -> str:
    is_text = isinstance(value, str)
    text = str(value) if is_text else msgspec.json.encode(value, order="sorted").decode()
    return text if len(text) <= SHOWN_LENGTH else f"{digest(text)} ({len(text)} characters)"


def make_tags(values: Mapping[str, object] | None) -> dict[str, str]:
    """Return the plain values of a metadata object as tags; nested ones are left out."""
    tags = {}
    for key, value in (values or {}).items():
        if isinstance(value, str):
            tags[key] = value
        elif isinstance(value, bool | int | float):
            tags[key] = msgspec.json.encode(value).decode()
    return tags


def require_one_file(files: Sequence[ForeignFile], tool: str) -> ForeignFile:
    """Return the only file of a format with one file per log."""
    if len(files) != 1:
        raise BadInputError(f"{tool} logs are read one file at a time, got {len(files)}")
    return files[0]


def digest_or_none(value: object) -> str | None:
    """Return the digest of a value that identifies an item, or None if it has none."""
    try:
        return None if value is None else digest(value)
    except InvalidValueError:
        return None


def choose_arm(arms: Sequence[LogExperiment], wanted: str | None, place: str) -> str:
    """Return the arm to read: the named or numbered one (from 1), or the only one."""
    names = [arm.name for arm in arms]
    listed = ", ".join(f"{n}: {name!r}" for n, name in enumerate(names, start=1)) or "none"
    if wanted is None:
        if len(names) == 1:
            return names[0]
        raise BadInputError(
            f"{place}: has {len(names)} arms; choose one with --arm, by name or number: {listed}"
        )
    if wanted in names:
        return wanted
    number = int(wanted) if re.fullmatch("[0-9]{1,6}", wanted) else 0
    if not 1 <= number <= len(names):
        near = did_you_mean(wanted, names)
        raise BadInputError(f"{place}: has no arm {wanted!r}{near} (arms: {listed})")
    return names[number - 1]


def find_repeats(contents: Mapping[int, object]) -> dict[int, tuple[int, int]]:
    """Map every index to the first index with the same content, and its number among those.

    Some tools write a repeated question several times. The repeats are not independent items, so
    they are counted as epochs of one.
    """
    firsts: dict[bytes, int] = {}
    seen: Counter[int] = Counter()
    found = {}
    for index in sorted(contents):
        key = msgspec.json.encode(contents[index], order="sorted")
        first = firsts.setdefault(key, index)
        seen[first] += 1
        found[index] = (first, seen[first])
    return found


def check_mean(
    name: str, claimed: float, values: Sequence[float], all_count: int, left_out: str
) -> ClaimCheck:
    """Compare a claimed mean with the mean of the rows, with and without missing values."""
    found = math.fsum(values) / len(values) if values else None
    bounded = all(0 <= value <= 1 for value in values)
    over_all = math.fsum(values) / all_count if bounded and all_count else None
    agrees = found is not None and is_same_number(claimed, found)
    missing = all_count - len(values)
    why = None
    explained = False
    if agrees and missing:
        why = f"{missing} of {all_count} {left_out}, not in its denominator"
    elif not agrees and over_all is not None and is_same_number(claimed, over_all):
        why = f"{missing} of {all_count} {left_out}, counted by the tool as 0"
        explained = True
    elif not agrees:
        why = "the log does not say why"
    return ClaimCheck(
        name, claimed, found, len(values), over_all, all_count, agrees, why, explained
    )


def check_count(name: str, claimed: float, found: int) -> ClaimCheck:
    """Compare a claimed count with the count of the rows."""
    agrees = claimed == found
    why = None if agrees else "rows and claim do not add up"
    return ClaimCheck(name, float(claimed), float(found), found, None, found, agrees, why)


def is_same_number(left: float, right: float) -> bool:
    """Return whether two numbers are equal up to decimal rounding."""
    return math.isclose(left, right, rel_tol=1e-6, abs_tol=1e-9)


class Gathering:
    """Collects the samples of one log, and counts them."""

    def __init__(self, tool: str, place: str, options: ReadOptions) -> None:
        self._tool = tool
        self.place = place
        self.options = options
        self._samples: dict[tuple[str, int], ForeignSample] = {}
        self._refused: list[Refusal] = []
        self._twice: list[str] = []
        self._checks: list[ClaimCheck] = []
        self._claimed: dict[str, float] = {}
        self._widened = 0
        self._partial: list[str] = []
        self._contradictions: list[str] = []
        self.by_position = False
        self.lower_is_better: set[str] = set()
        self.higher_is_better: set[str] = set()
        self._settings: dict[str, dict[str, str]] = {}
        self.version: str | None = None
        self.notes: list[str] = []
        self.lineage: dict[str, str] = {}

    @property
    def tool_name(self) -> str:
        """The tool, with its version if the log has one."""
        return f"{self._tool} {self.version or ''}".strip()

    @property
    def samples(self) -> Iterable[ForeignSample]:
        """The samples so far."""
        return self._samples.values()

    def refuse(self, refusal: Refusal) -> None:
        """Count a row that cannot be read."""
        self._refused.append(refusal)

    def readable(
        self, found: Iterable[tuple[str, Raw, Row | Refusal]]
    ) -> Iterator[tuple[str, Raw, Row]]:
        """Yield the rows that could be read, each with its place and its form in the log."""
        for place, raw, row in found:
            if isinstance(row, Refusal):
                self.refuse(row)
            else:
                yield place, raw, row

    def read_typed(
        self, found: Iterable[tuple[str, dict[str, object] | Refusal]], kind: type[Row]
    ) -> Iterator[tuple[str, dict[str, object], Row]]:
        """Yield the rows that have the fields of a type, each as it was and as that type."""
        for place, whole in found:
            if isinstance(whole, Refusal):
                self.refuse(whole)
                continue
            try:
                row = msgspec.convert(whole, kind)
            except msgspec.ValidationError as error:
                self.refuse(Refusal(place, str(error)))
            else:
                yield place, whole, row

    def choose_arm(self, arms: Sequence[LogExperiment]) -> str:
        """Return the arm to read: the one that the caller chose, or the only one."""
        return choose_arm(arms, self.options.arm, self.place)

    def choose_id(self, place: str, row: object, fallback: object) -> object:
        """Return the id at the path that the caller named, or the tool's own."""
        path = self.options.id_path
        if path is None:
            return fallback
        if isinstance(row, msgspec.Raw):
            row = decode(bytes(row), dict[str, object], place)
        return find_value(row, path)

    def add(
        self,
        place: str,
        *,
        item: object,
        epoch: int = 1,
        given: object = None,
        target: object = None,
        output: object = None,
        scores: Mapping[str, object] | None = None,
        error: ForeignError | None = None,
        confidence: float | None = None,
        latency_ms: object = None,
        cluster: str | None = None,
        tags: Mapping[str, str] | None = None,
        cost: object = None,
        tokens: object = None,
    ) -> None:
        """Add one row; refuse it with a reason if it is not a valid record.

        A score that is not a number becomes null; if the tool wrote NaN or Infinity, a tag says so.
        """
        name = read_id(item)
        if name is None:
            self.refuse(
                Refusal(
                    place, f"has no usable id, got {shorten_value(item)}; name a field with --id"
                )
            )
            return
        if not 1 <= epoch <= _LARGEST_EXACT:
            got = epoch if -_LARGEST_EXACT < epoch < 1 else "a number beyond 2**53"
            self.refuse(Refusal(place, f"epoch must be >= 1, got {got}"))
            return
        try:
            given, target, output = (
                self._make_portable(value) for value in (given, target, output)
            )
        except BadInputError as problem:
            self.refuse(Refusal(place, str(problem)))
            return
        if (name, epoch) in self._samples:
            self._twice.append(f"{place}: {name!r} (epoch {epoch})")
            return
        span, money, count = map(score_number, (latency_ms, cost, tokens))
        numbers, missing = self._convert_scores(scores or {})
        self._samples[name, epoch] = ForeignSample(
            id=name,
            epoch=epoch,
            input=given,
            target=target,
            output=output,
            scores={} if error else numbers,
            confidence=confidence,
            error=error,
            latency_ms=span if span is not None and span >= 0 else None,
            cluster=cluster,
            tags={**(tags or {}), **missing},
            cost=money if money is not None and money >= 0 else None,
            tokens=None if count is None or not 0 <= count < _LARGEST_EXACT else int(count),
        )

    def _convert_scores(
        self, scores: Mapping[str, object]
    ) -> tuple[dict[str, float | None], dict[str, str]]:
        """Return scores as numbers, and a tag for each that the tool wrote as NaN or Infinity."""
        missing = {}
        for name, value in scores.items():
            text = str(value) if isinstance(value, float) and not math.isfinite(value) else value
            text = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(str(text), text)
            if isinstance(text, str) and text in NOT_FINITE:
                missing[f"missing.{name}"] = f"{self._tool} wrote {text}"
                self.note(f"score {name} is {text} for some samples: read as unscored (null)")
        return {name: score_number(value) for name, value in scores.items()}, missing

    def partial(self, reason: str) -> None:
        """Record why the log covers only part of its run; an incomplete run cannot pass."""
        self._partial.append(reason)
        self.note(f"{reason}; an incomplete run cannot pass")

    def note_contradiction(self, reason: str) -> None:
        """Record where the log contradicts itself; it then supports no verdict."""
        if reason not in self._contradictions:
            self._contradictions.append(reason)
        self.note(reason)

    def note(self, text: str) -> None:
        """Add a note once."""
        if text not in self.notes:
            self.notes.append(text)

    def scored_with(self, score: str, settings: Mapping[str, object]) -> None:
        """Record the settings with which the tool made a score, or all scores below ``score/``.

        A setting without a value is left out. Long ones, such as prompts, are kept as a digest.
        """
        known = self._settings.setdefault(score, {})
        known |= {
            name: _write_setting(value) for name, value in settings.items() if value is not None
        }

    def claim(self, name: str, value: object) -> None:
        """Store an aggregate that the tool reports."""
        number = score_number(value)
        if number is not None:
            self._claimed[name] = number

    def note_left_out(
        self, name: str, values: Sequence[float], all_count: int, left_out: str
    ) -> None:
        """Note what a mean becomes if the rows that the tool leaves out are counted."""
        missing = all_count - len(values)
        if values and missing and all(0 <= value <= 1 for value in values):
            total = math.fsum(values)
            self.note(
                f"{name}: {self._tool} shows {total / len(values):.6g} over {len(values)}; "
                f"{missing} of {all_count} {left_out}, and over all it is {total / all_count:.6g}"
            )

    def check(self, check: ClaimCheck) -> None:
        """Store a comparison with a claimed number; add a note if they differ."""
        self._checks.append(check)
        self._claimed[check.name] = check.claimed
        if not (check.agrees or check.explained):
            self.note_contradiction(check.line())
        elif check.why is not None:
            self.note(check.line())

    def finish(self, *, arm: str | None = None, headline: str | None = None) -> Imported:
        """Return everything collected, sorted by id."""
        if self._twice:
            shown = "; ".join(self._twice[:_LISTED])
            raise BadInputError(
                f"{self.place}: {len(self._twice)} rows repeat an id: {shown}; "
                "name another id field with --id"
            )
        if not self._samples:
            reasons = tuple(f"{row.place}: {row.reason}" for row in self._refused[:_LISTED])
            raise BadInputError(
                (f"{self.place}: no {self.tool_name} sample could be read", *reasons),
                unlisted_count=max(0, len(self._refused) - _LISTED),
            )
        if self._widened:
            self.note(f"{self._widened} integers beyond 2**53 are stored as text")
        if self._refused:
            self.note(f"{len(self._refused)} rows could not be read and were refused")
        return Imported(
            tool=self._tool,
            arm=arm,
            samples=tuple(self._samples[key] for key in sorted(self._samples)),
            refused=tuple(self._refused),
            claimed=self._claimed,
            checks=tuple(self._checks),
            notes=tuple(self.notes),
            headline=headline,
            lineage={key: text for key, text in self.lineage.items() if text},
            origin=SampleOrigin(
                tool=self._tool,
                version=(self.version or "").strip() or None,
                partial=tuple(self._partial),
                contradictions=tuple(self._contradictions[:_LISTED]),
                by_position=self.by_position and self.options.id_path is None,
                lower_is_better=tuple(sorted(self.lower_is_better)),
                higher_is_better=tuple(sorted(self.higher_is_better - self.lower_is_better)),
                settings=self._list_settings(),
            ),
        )

    def _list_settings(self) -> tuple[ScoreSetting, ...]:
        """Return the settings of every score that the samples have."""
        names = {name for sample in self.samples for name in sample.scores}
        return tuple(
            ScoreSetting(score, name, value)
            for score in sorted(names)
            for made, settings in sorted(self._settings.items())
            if made == score or score.startswith(f"{made}/")
            for name, value in sorted(settings.items())
        )

    def only_score(self) -> str | None:
        """Return the name of the score if every sample has the same single one."""
        names = {name for sample in self.samples for name in sample.scores}
        return names.pop() if len(names) == 1 else None

    def _make_portable(self, value: object, depth: int = 0) -> object:
        if depth > self.options.limits.value_depth:
            raise BadInputError(f"nested deeper than {self.options.limits.value_depth} levels")
        if isinstance(value, dict):
            return {str(key): self._make_portable(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self._make_portable(item, depth + 1) for item in value]
        if isinstance(value, float) and not math.isfinite(value):
            return None
        if isinstance(value, int) and abs(value) > _LARGEST_EXACT:
            self._widened += 1
            return str(value)
        return value


def make_log_importer(
    name: str,
    summary: str,
    *,
    sniff: Callable[[bytes, str], bool],
    load: Callable[[ForeignFile, Gathering], Log],
    arms: Callable[[Log], tuple[LogExperiment, ...]],
    read: Callable[[Log, Gathering], Imported],
    in_folder: Callable[[Sequence[str]], Sequence[str]] | None = None,
) -> Importer:
    """Return the importer of a format with one file per log."""

    def open_log(files: Sequence[ForeignFile], options: ReadOptions) -> tuple[Log, Gathering]:
        file = require_one_file(files, name)
        gathering = Gathering(name, file.name, options)
        return load(file, gathering), gathering

    return Importer(
        name=name,
        summary=summary,
        sniff=sniff,
        arms=lambda files, options: arms(open_log(files, options)[0]),
        read=lambda files, options: read(*open_log(files, options)),
        in_folder=in_folder,
    )
