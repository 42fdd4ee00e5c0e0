"""What answered in a run, as its result keeps it: the identity of the target of each arm.

The candidate and the baseline of a result are digests of these identities, or registered versions
that somebody vouched for; then the runtime of the result names the digest of what answered. So a
result cannot be said to be of another candidate without what it keeps saying so, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from gatemark.core.canonical import canonical_bytes, digest
from gatemark.core.errors import IntegrityError
from gatemark.core.measurement import Evidence
from gatemark.core.result import PACK_BLOB, AssetRef, Result
from gatemark.evidence.result_rules import StoredBlobs
from gatemark.packs.pack import Pack, read_pack
from gatemark.packs.pack_file import BASELINE, CANDIDATE

TARGETS_BLOB: Final = "targets.json"
Identity = Mapping[str, object]


def write_targets(identities: Mapping[str, Identity]) -> dict[str, bytes]:
    """Return the file of a result that says what answered; none for a pack without targets."""
    return {TARGETS_BLOB: canonical_bytes(identities)} if identities else {}


def read_targets(data: bytes) -> dict[str, dict[str, Any]]:
    """Return the identity of what answered, by arm."""
    try:
        return msgspec.json.decode(data, type=dict[str, dict[str, Any]])
    except msgspec.MsgspecError as error:
        raise IntegrityError(f"{TARGETS_BLOB}: cannot be read: {error}") from error


def name_answered(arm: str) -> str:
    """Return the runtime key of a result: the digest of what answered for a version."""
    return f"target.{arm}"


def digest_candidate_files(accounts: Iterable[Evidence]) -> str:
    """Return what identifies the candidate of a pack without targets: its evidence files."""
    files = {
        file.name: file.digest
        for account in accounts
        if account.checks.get("arm") == CANDIDATE
        for file in account.files
    }
    return digest({"evidence": files})


def list_other_subjects(
    result: Result, pack: Pack, data: Mapping[str, bytes], arms: Mapping[str, object]
) -> Iterator[str]:
    """Yield where a result is said to be of something else than what it keeps is of.

    ``arms`` are those that answered.
    """
    if pack.targets is None:
        answered = {CANDIDATE: digest_candidate_files(result.evidence)}
    elif TARGETS_BLOB in data:
        kept = read_targets(data[TARGETS_BLOB])
        if kept.keys() != arms.keys():
            yield f"its {TARGETS_BLOB} is not of the arms that answered"
        answered = {arm: digest(identity) for arm, identity in kept.items()}
    else:
        yield "it does not keep what answered"
        return
    said = {CANDIDATE: result.candidate, BASELINE: result.baseline}
    for arm, reference in said.items():
        yield from _find_other_subject(result, pack, arm, reference, answered.get(arm))


def _find_other_subject(
    result: Result, pack: Pack, arm: str, reference: AssetRef | None, answered: str | None
) -> Iterator[str]:
    if (reference is None) != (answered is None):
        word = "no" if reference is None else "a"
        yield f"it names {word} {arm}, and what it keeps is of {'none' if word == 'a' else 'one'}"
    elif reference is not None and answered is not None:
        vouched = result.runtime.get(name_answered(arm))
        if vouched is None and reference.digest != answered:
            yield f"its {arm} is said to be {reference.digest}, what answered is {answered}"
        elif vouched is not None and vouched != answered:
            yield f"what answered for its {arm} is said to be {vouched}, and is {answered}"
        elif vouched is None and arm == CANDIDATE and reference.id != f"{pack.asset.name}/{arm}":
            yield f"its {arm} is said to be {reference.id}, its pack is of {pack.asset.name}"


def check_subject(result: Result, blobs: StoredBlobs) -> None:
    """Raise IntegrityError if a result of a pack says that it is of something else than it keeps.

    What was erased cannot be compared.
    """
    kept = {blob.name: blob.digest for blob in result.blobs}
    if PACK_BLOB not in kept or not blobs.has(kept[PACK_BLOB]):
        return
    if TARGETS_BLOB in kept and not blobs.has(kept[TARGETS_BLOB]):
        return
    data: dict[str, bytes] = {
        name: blobs.get(kept[name]) for name in (PACK_BLOB, TARGETS_BLOB) if name in kept
    }
    pack = read_pack(data[PACK_BLOB], result.pack.digest, PACK_BLOB)
    arms = {
        arm: None for arm in (CANDIDATE, BASELINE) if any(n.endswith(f".{arm}.jsonl") for n in kept)
    }
    for why in list_other_subjects(result, pack, data, arms):
        raise IntegrityError(f"result {result.id}: {why}")
