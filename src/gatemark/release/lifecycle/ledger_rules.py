"""Verify that every decision in a ledger follows from the lifecycle rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from gatemark.core.errors import (
    GatemarkError,
    IntegrityError,
    NewerFormatError,
    OtherRulesError,
    UsageError,
)
from gatemark.core.result import PACK_BLOB, Result
from gatemark.core.stored import convert_stored
from gatemark.ledger.event import Event
from gatemark.ledger.event_kinds import BLOB_ERASED, RESULT_SEALED, ResultSealed
from gatemark.ledger.port import Store
from gatemark.release.lifecycle.citations import FoundResults, summed_up
from gatemark.release.lifecycle.decisions.inspection import EventFinding, Inspector
from gatemark.release.lifecycle.events.fact import fact_kinds
from gatemark.release.lifecycle.model.nouns import Cited
from gatemark.release.lifecycle.model.stages import LANE, lane_of
from gatemark.release.lifecycle.model.state import Asset
from gatemark.release.lifecycle.state_cache import recorded


class RuleCheck:
    """The lifecycle's part of ``ledger verify``; reads events in order."""

    def __init__(self, store: Store) -> None:
        self.kinds = frozenset({RESULT_SEALED, *(kind.name for kind in fact_kinds())})
        self._known = KnownResults(store)
        self._inspector = Inspector(self._known.about)

    @property
    def caveats(self) -> tuple[str, ...]:
        """Notes on facts that could only be taken from the ledger itself."""
        gone = (
            f"result {result_id}: its pack is gone; how it asked and scored is not checked"
            for result_id in sorted(self._known.without_pack)
        )
        lanes = (
            f"result {result_id}: its evidence was erased; its candidates for discussion are not "
            "checked"
            for result_id in sorted(self._known.without_evidence)
        )
        return (*gone, *lanes, *self._inspector.caveats)

    @property
    def unjudged(self) -> tuple[str, ...]:
        return (*dict.fromkeys(self._known.newer), *self._inspector.unjudged)

    def step(self, event: Event, payload: Mapping[str, object]) -> Sequence[tuple[int, str]]:
        return [finding[:2] for finding in self._step(event, payload)]

    def finish(self) -> Sequence[tuple[int, str]]:
        return [finding[:2] for finding in self._inspector.finish()]

    def _step(self, event: Event, payload: Mapping[str, object]) -> Sequence[EventFinding]:
        if event.kind == RESULT_SEALED:
            found = self._inspector.settle()
            self._known.seal(payload)
            return found
        try:
            line = recorded(event, payload)
        except IntegrityError as error:
            return [EventFinding(event.seq, str(error).removeprefix(f"event {event.seq} "))]
        return [] if line is None else self._inspector.step(line)


class KnownResults:
    """What is known of results at a point in the ledger: those that were sealed by then."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._results: dict[str, Result | None] = {}
        self._sealed: set[str] = set()
        self._summaries: dict[str, Cited] = {}
        self._lanes_of: dict[str, tuple[str, ...]] = {}
        self.without_pack: set[str] = set()
        self.without_evidence: set[str] = set()
        self.newer: list[str] = []
        self._erased: set[str] | None = None

    def seal(self, payload: Mapping[str, object]) -> None:
        """Add a result that was sealed."""
        try:
            self._sealed.add(convert_stored(payload, ResultSealed).result_id)
        except msgspec.ValidationError:
            # The check of sealed results reports this.
            return

    def about(self, asset: Asset) -> Mapping[str, Cited]:
        """Return the results as a decision about an asset sees them now."""
        return FoundResults(partial(self.cited, asset))

    def cited(self, asset: Asset, result_id: str) -> Cited | None:
        """Return one result, or None if it is not sealed yet or does not verify."""
        result = self._find_result(result_id) if result_id in self._sealed else None
        if result is None:
            return None
        try:
            found = self._sum_up(result)
        except NewerFormatError as error:
            self.newer.append(f"result {result_id}: {error}")
            found = self._leave_out_definition(result, asset)
        except IntegrityError:
            if not self._has_erased_pack(result):
                # A pack that does not match its digest proves nothing.
                return None
            self.without_pack.add(result_id)
            found = self._leave_out_definition(result, asset)
        if asset.kind == LANE:
            return msgspec.structs.replace(found, candidate_lanes=self._find_lanes(result, asset))
        return found

    def _sum_up(self, result: Result) -> Cited:
        """Read the pack of a result once; decisions ask for the same results over and over."""
        if result.id not in self._summaries:
            self._summaries[result.id] = summed_up(result, self._store.blobs)
        return self._summaries[result.id]

    def _find_lanes(self, result: Result, asset: Asset) -> tuple[str, ...]:
        """Return the candidates for discussion; if the evidence was erased, as in the ledger."""
        if result.file_digests & self._list_erased_blobs():
            self.without_evidence.add(result.id)
            return (lane_of(asset.name),)
        if result.id not in self._lanes_of:
            # Judging lanes loads exams and statistics, which nothing else here needs.
            from gatemark.packs.lanes import NoLaneExamError, candidate_lanes  # noqa: PLC0415

            try:
                self._lanes_of[result.id] = candidate_lanes(self._store.blobs, result)
            except NoLaneExamError as error:
                self.newer.append(str(error))
                self._lanes_of[result.id] = (lane_of(asset.name),)
            except OtherRulesError:
                # The check of results reports it; the decision is taken as recorded.
                self._lanes_of[result.id] = (lane_of(asset.name),)
            except GatemarkError:
                # If they cannot be derived, no lane is a candidate.
                self._lanes_of[result.id] = ()
        return self._lanes_of[result.id]

    def _list_erased_blobs(self) -> set[str]:
        if self._erased is None:
            erasures = self._store.events.events(kind=BLOB_ERASED)
            self._erased = {str(payload["digest"]) for _, payload in erasures if payload}
        return self._erased

    def _has_erased_pack(self, result: Result) -> bool:
        packs = {blob.digest for blob in result.blobs if blob.name == PACK_BLOB}
        return bool(packs & self._list_erased_blobs())

    def _leave_out_definition(self, result: Result, asset: Asset) -> Cited:
        """Return a result whose pack cannot be read, as the ledger describes it."""
        found = summed_up(result, None)
        definition = None if asset.required_pack is None else asset.required_pack.definition
        pack = msgspec.structs.replace(found.pack, definition=definition)
        return msgspec.structs.replace(found, pack=pack)

    def _find_result(self, result_id: str) -> Result | None:
        if result_id not in self._results:
            try:
                self._results[result_id] = self._store.results.get(result_id)
            except (UsageError, IntegrityError, NewerFormatError):
                self._results[result_id] = None
        return self._results[result_id]
