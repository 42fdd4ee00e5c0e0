"""Verify a whole ledger from its stored rows, without trusting what it says about itself.

(1) Every event has its digest and names the one before; there are no gaps, and times never
decrease. (2) Every payload has the digest in its event, or a tombstone. (3) The stored tree is the
tree over these events. (4) Every key was introduced by the one before. Feature checks verify that
decisions follow the rules. (5) Every checkpoint belongs to this ledger, is signed by a valid key,
and has the root at its size. (6) Every result and every blob matches its events, and results name
rules that exist. Each issue names the first event it concerns.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import NamedTuple

from gatemark.core.canonical import canonical_bytes, digest_bytes, is_digest, same_digest
from gatemark.core.errors import BadInputError, IntegrityError, NewerFormatError, OtherRulesError
from gatemark.core.policy import Outcome
from gatemark.core.result import RESULT_FORMAT, Result, occasion_of, read_result
from gatemark.evidence.result_rules import check_result_rules
from gatemark.ledger.blobs import digest_of
from gatemark.ledger.checks.report import IssueList, LedgerReport, VerificationIssue
from gatemark.ledger.checks.scan import EventScan, FurtherLook
from gatemark.ledger.erase import remains_of
from gatemark.ledger.event_kinds import BLOB_ERASED, CONTENT_ERASED
from gatemark.ledger.port import Store
from gatemark.ledger.signing.keyring import KEY_KINDS, Keyring
from gatemark.ledger.signing.note import Checkpoint, Note, VerifierKey, read_checkpoint

NO_CHECKPOINT = (
    "no checkpoint was checked: without one, a ledger that was rewritten or cut short "
    "cannot be told from the original"
)


NOT_ANCHORED = (
    "no checkpoint was checked that you hold: give one that was kept elsewhere with --since, "
    "or the public key of the ledger with --key"
)


class VerifyOptions(NamedTuple):
    """Trusted keys, and checkpoints that the user kept elsewhere.

    ``erased_later`` returns the blobs that were erased after an event.
    """

    trusted: tuple[VerifierKey, ...] = ()
    since: tuple[str, ...] = ()
    has_tree: bool = True
    require_checkpoint: bool = False
    erased_later: Callable[[int], Collection[str]] = lambda _: ()


class _Signed(NamedTuple):
    place: str
    checkpoint: Checkpoint
    note: Note
    is_given: bool = False


class LedgerCheck:
    """Verifies one store; ``further`` are the checks that features add."""

    def __init__(
        self, store: Store, asked: VerifyOptions, further: Sequence[FurtherLook] = ()
    ) -> None:
        self._store = store
        self._asked = asked
        self.issues = IssueList()
        self.unjudged: list[str] = []
        self._caveats: list[str] = []
        self._ring = Keyring(asked.trusted)
        self._signed = self._read_checkpoints()
        self._is_anchored = False
        self._result_count = 0
        self._blobs: dict[str, bool] = {}
        events = store.events
        self._scan = EventScan(
            self.issues,
            self._ring,
            sizes=[signed.checkpoint.size for signed in self._signed],
            nodes=events.nodes() if asked.has_tree else None,
            further=further,
        )
        self._further = further

    def run(self, on_progress: Callable[[int], None] | None = None) -> None:
        """Run steps 1 to 6."""
        try:
            self._scan.walk(self._store.events.rows(), on_progress)
        except IntegrityError as error:
            self._scan.give_up(str(error))
        self._scan.finish(self._store.events.last_payload())
        self.unjudged.extend(self._scan.unjudged)
        self._check_checkpoints()
        self._check_results()
        if missing := self._store.events.missing_guards():
            names = ", ".join(missing)
            self._caveats.append(f"the database no longer prevents changes; missing: {names}")
        for digest, seq in sorted(self._scan.erased_blobs.items(), key=lambda one: one[1]):
            if is_digest(digest) and self._store.blobs.has(digest):
                self.unjudged.append(
                    f"event {seq}: blob {digest} was erased, but is in the store; "
                    f"erase it again: gatemark ledger erase {digest} --reason …"
                )
            else:
                self._caveats.append(f"event {seq}: blob {digest} was erased; what it held is gone")
        for look in self._further:
            self._caveats.extend(look.caveats)
            self.unjudged.extend(look.unjudged)
        if self._scan.judged_until is not None:
            since = self._scan.judged_until + 1
            self._caveats.append(
                f"decisions from event {since} on were not checked against the rules"
            )

    def seq_of_result(self, result_id: str) -> int | None:
        """Return the number of the event that sealed a result."""
        sealed = self._scan.results.get(result_id)
        return None if sealed is None else sealed.seq

    def signing_keys(self) -> list[VerifierKey]:
        """Return the keys that may sign for the ledger now."""
        return self._ring.keys_for(self._scan.size)

    def add_missing_blob(self, seq: int | None, message: str) -> None:
        """Report a missing blob, unless a newer build may have erased it."""
        if BLOB_ERASED in self._scan.newer_kinds:
            place = "" if seq is None else f"event {seq}: "
            self.unjudged.append(f"{place}{message}; a newer build may have erased it")
        else:
            self.issues.of_event(seq, "blob", message)

    def is_erased(self, blob: str) -> bool:
        """Whether a blob, or the texts of a result, have a tombstone."""
        known = (self._scan.erased_blobs, self._scan.erased_results, self._erased_later)
        return any(blob in one for one in known)

    @cached_property
    def _erased_later(self) -> Collection[str]:
        """Blobs whose tombstone was added while the check was running."""
        return self._asked.erased_later(self._scan.size)

    def add_caveat(self, caveat: str) -> None:
        self._caveats.append(caveat)

    def report(self) -> LedgerReport:
        scan = self._scan
        issues = self._select_issues()
        bad = [issue.seq for issue in issues if issue.seq is not None]
        verdict: Outcome = "fail" if issues else "inconclusive" if self.unjudged else "pass"
        root = scan.root
        return LedgerReport(
            verdict=verdict,
            first_bad_seq=min(bad, default=None),
            origin=scan.origin,
            head=scan.head,
            root=None if root is None else base64.b64encode(root).decode(),
            events=scan.size,
            payloads_erased=scan.erased_count,
            results=self._result_count,
            blobs=sum(self._blobs.values()),
            decisions=scan.decision_count,
            checkpoints=len(self._signed),
            keys=tuple(str(tenure.key) for tenure in self._ring.tenures),
            issues=issues,
            issues_unlisted=self.issues.count - len(issues),
            unjudged=tuple(self.unjudged),
            caveats=tuple(self._caveats),
            decided_through=dict(scan.ways),
            is_anchored=self._is_anchored,
        )

    def _select_issues(self) -> tuple[VerificationIssue, ...]:
        """Return the issues, without those that a newer format may explain."""
        settled = self.issues.settled()
        newer_from = self._scan.newer_from
        # If the list of issues was cut off, an unlisted one may be real, so none is dropped.
        if newer_from is None or self.issues.count > len(settled):
            return settled
        kept = []
        for issue in settled:
            is_later = issue.seq is not None and issue.seq >= newer_from
            if is_later and issue.check in ("decision", "key"):
                self.unjudged.append(issue.message)
            else:
                kept.append(issue)
        return tuple(kept)

    def _read_checkpoints(self) -> list[_Signed]:
        signed = []
        for size, text in self._store.events.checkpoints():
            place = f"checkpoint {size}"
            try:
                checkpoint, note = read_checkpoint(text, place)
            except BadInputError as error:
                self.issues.add(size, "checkpoint", str(error))
                continue
            if checkpoint.size != size:
                message = f"{place}: is stored under the wrong size; its own is {checkpoint.size}"
                self.issues.add(min(size, checkpoint.size), "checkpoint", message)
            signed.append(_Signed(place, checkpoint, note))
        for text in self._asked.since:
            place = "the given checkpoint"
            signed.append(_Signed(place, *read_checkpoint(text, place), is_given=True))
        return sorted(signed, key=lambda one: one.checkpoint.size)

    def _check_checkpoints(self) -> None:
        good = 0
        for signed in self._signed:
            if self._check_checkpoint(signed, good):
                good = signed.checkpoint.size
                self._is_anchored |= signed.is_given or bool(self._asked.trusted)
        if self._asked.require_checkpoint and not self._is_anchored:
            self.unjudged.append(NOT_ANCHORED)
        for seq, reason in self._ring.replaced:
            message = (
                f"event {seq}: the key was replaced without a signature of the old one ({reason})"
            )
            self._caveats.append(message)
        if not self._signed:
            if self._asked.trusted:
                self.unjudged.append(
                    "the ledger has no checkpoint that the given key could have signed"
                )
            else:
                self._caveats.append(NO_CHECKPOINT)
        elif good < self._scan.size:
            first = good + 1
            since = f"event {first}" if first == self._scan.size else f"events {first} and later"
            self._caveats.append(f"no checkpoint covers {since} yet")
        if self._signed and not self._asked.trusted:
            self._caveats.append(
                "the keys come from the ledger itself; name a key you trust with --key"
            )

    def _check_checkpoint(self, signed: _Signed, good: int) -> bool:
        """Check origin, signature and root; ``good`` is the largest size that verified so far."""
        place, checkpoint = signed.place, signed.checkpoint
        if checkpoint.origin != self._scan.origin:
            message = f"{place}: belongs to another ledger, {checkpoint.origin}"
            self.issues.add(1, "checkpoint", message)
            return False
        try:
            key = signed.note.signed_by(self._ring.keys_for(checkpoint.size))
        except IntegrityError as error:
            self.issues.add(checkpoint.size, "checkpoint", f"{place}: {error}")
            return False
        if key is None:
            names = ", ".join(sorted({signature.name for signature in signed.note.signatures}))
            message = f"{place}: not signed by a key of this ledger, but by {names}"
            if KEY_KINDS & self._scan.newer_kinds:
                self.unjudged.append(f"{message}; a newer build may have added the key")
            else:
                self.issues.add(checkpoint.size, "checkpoint", message)
            return False
        size = self._scan.size
        if checkpoint.size > size:
            message = f"missing, but {place} covers {checkpoint.size} events"
            self.issues.of_event(size + 1, "checkpoint", message)
            return False
        root = self._scan.roots.get(checkpoint.size)
        if root != checkpoint.root:
            message = f"{place}: the events up to it are not those that were signed"
            self.issues.add(good + 1, "checkpoint", message, until=checkpoint.size)
            return False
        return True

    def _check_results(self) -> None:
        sealed = self._scan.results
        found = set()
        for result_id, document in self._store.results.documents():
            found.add(result_id)
            self._result_count += 1
            if result_id in self._scan.newer_results and result_id not in sealed:
                continue
            seq = self.seq_of_result(result_id)
            if not document and CONTENT_ERASED in self._scan.newer_kinds:
                self.unjudged.append(f"result {result_id} may have been erased by a newer build")
                continue
            if seq is None:
                self.issues.add(None, "result", f"result {result_id}: no event records it")
            try:
                result = self._read(result_id, document)
            except NewerFormatError as error:
                # The scan already reported events that name a newer result format.
                if seq is None or sealed[result_id].said.result_format == RESULT_FORMAT:
                    message = f"{error}, but its event does not say so"
                    self.issues.of_event(seq, "result", message)
                continue
            except IntegrityError as error:
                self.issues.of_event(seq, "result", str(error))
                continue
            if seq is not None:
                self._compare(seq, result)
            self._check_blobs(seq, result)
            self._check_rules(seq, result)
        self._check_absent(found)

    def _check_rules(self, seq: int | None, result: Result) -> None:
        """Report a result of other rules as recorded and not decided again."""
        try:
            check_result_rules(result, self._store.blobs)
        except OtherRulesError as error:
            self.unjudged.append(str(error))
        except IntegrityError as error:
            self.issues.of_event(seq, "result", str(error))

    def _check_absent(self, found: Collection[str]) -> None:
        """Report results that events name but the store lacks."""
        for result_id, erasure in self._scan.erased_results.items():
            if result_id not in found or erasure.event.seq < (self.seq_of_result(result_id) or 0):
                number = erasure.event.seq
                message = f"erases result {result_id}, which was not there"
                self.issues.of_event(number, "result", message)
        for result_id, (seq, _) in self._scan.results.items():
            if result_id not in found:
                message = f"result {result_id} is missing from the store"
                self.issues.of_event(seq, "result", message)

    def read_erased(self, result_id: str) -> Result | None:
        """What is left of an erased result; None when nothing erased it, or it cannot be read."""
        erasure = self._scan.erased_results.get(result_id)
        try:
            return None if erasure is None else erasure.result()
        except IntegrityError:
            # The check of results has told of it.
            return None

    def _read(self, result_id: str, document: bytes) -> Result:
        """A result whose seal holds, or what is left of one that an event erased."""
        erasure = self._scan.erased_results.get(result_id)
        # An export has what is left as a file.
        is_whole = bool(document) and not (
            erasure is not None and document == canonical_bytes(erasure.said.remains)
        )
        if is_whole:
            result = read_result(result_id, document)
            if erasure is not None:
                message = f"result {result_id} was erased by event {erasure.event.seq}, yet is here"
                raise IntegrityError(message)
            return result
        if erasure is None:
            raise IntegrityError(
                f"result {result_id}: its document is gone, and no event erased it"
            )
        result = erasure.result()
        occasion = {"id": result_id, "occasion": occasion_of(result)}
        policy = canonical_bytes(erasure.said.remains.get("policy"))
        is_sound = (
            result.id == result_id == erasure.said.digest
            and same_digest(digest_bytes(canonical_bytes(occasion)), result.stamp)
            and same_digest(digest_bytes(policy), result.policy_digest)
            and remains_of(result) == erasure.said.remains
        )
        if not is_sound:
            raise IntegrityError(f"event {erasure.event.seq} does not say what is left of it")
        self._caveats.append(
            f"result {result_id}: its texts were {erasure.words}; its seal covered them, so its "
            "numbers are as the erasure recorded them (--rescore derives them from the evidence)"
        )
        return result

    def _compare(self, seq: int, result: Result) -> None:
        said = self._scan.results[result.id].said
        pairs = (
            ("stamp", said.stamp, result.stamp),
            ("verdict", said.verdict, result.verdict),
            ("candidate", said.candidate, result.candidate),
            ("baseline", said.baseline, result.baseline),
            ("pack", said.pack, result.pack),
            ("policy", said.policy_digest, result.policy_digest),
            ("format", said.result_format, result.schema),
        )
        for word, claimed, kept in pairs:
            if claimed != kept:
                message = f"names another {word} than result {result.id} has"
                self.issues.of_event(seq, "result", message)

    def _check_blobs(self, seq: int | None, result: Result) -> None:
        files = [(file.name, file.digest) for account in result.evidence for file in account.files]
        for name, digest in [*files, *((blob.name, blob.digest) for blob in result.blobs)]:
            if digest in self._blobs:
                continue
            self._blobs[digest] = is_digest(digest) and self._store.blobs.has(digest)
            if not self._blobs[digest]:
                if not self.is_erased(digest):
                    self.add_missing_blob(seq, f"blob {digest} ({name}) is missing from the store")
            elif not same_digest(digest_of(self._store.blobs.pieces(digest)), digest):
                self.issues.of_event(seq, "blob", f"blob {digest} ({name}) was changed")


def verify_ledger(store: Store, *, further: Sequence[FurtherLook] = ()) -> LedgerReport:
    """Verify a whole store only against itself, and return the report."""
    check = LedgerCheck(store, VerifyOptions(), further)
    check.run()
    return check.report()
