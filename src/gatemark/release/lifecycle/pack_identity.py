"""Identify the pack of a result and the pack in a file in the same terms.

Two packs are the same if they differ only in who answers and in which recent data was replayed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NotRequired, TypedDict

import msgspec

from gatemark.core.canonical import digest, digest_bytes, plain
from gatemark.core.policy import Policy
from gatemark.core.result import PACK_BLOB, Result
from gatemark.ledger.port import BlobStore
from gatemark.packs.pack import PACK_POLICY, read_pack
from gatemark.release.lifecycle.model.nouns import PackIdentity

REPLAY: Final = "replay"
_LABELS: Final = "labels/"
_SCORING: Final = "scoring"


def identify_result_pack(result: Result, blobs: BlobStore | None = None) -> PackIdentity:
    """Identify the pack of a result, without the data of replay suites, which changes over time.

    Without ``blobs`` it has no definition, so it is not a required pack.
    """
    replayed = {
        evidence.checks.get("snapshot")
        for evidence in result.evidence
        if evidence.checks.get("kind") == REPLAY
    }
    return PackIdentity(
        pack=result.pack.name,
        version=result.pack.version,
        policy=_find_policy_digest(result.policy, result.policy_digest),
        snapshots=tuple(sorted(set(result.snapshots) - replayed)),
        definition=None if blobs is None else _read_definition(result, blobs),
    )


def pack_kind(result: Result, blobs: BlobStore) -> str | None:
    """The kind of asset that the pack of a result is for; None for results of no pack."""
    kept = {blob.name: blob.digest for blob in result.blobs}
    if PACK_BLOB not in kept:
        return None
    data = blobs.get(kept[PACK_BLOB])
    return read_pack(data, result.pack.digest, f"result {result.id}: {PACK_BLOB}").asset.kind


def identify_pack_file(path: str) -> PackIdentity:
    """Identify the pack in a file, with its data as it is now."""
    # Importing packs loads suites and statistics, which nothing else here needs.
    from gatemark.packs.pack_file import describe_scoring, open_pack  # noqa: PLC0415
    from gatemark.packs.policy import make_pack_policy  # noqa: PLC0415
    from gatemark.packs.stored_pack import write_definition  # noqa: PLC0415

    opened = open_pack(path)
    pack = opened.pack
    replayed = {
        opened.snapshots[suite.id].reference for suite in pack.suites if suite.kind == REPLAY
    }
    labels = {
        name: digest_bytes(data)
        for name, data in write_definition(opened).items()
        if name.startswith(_LABELS)
    }
    policy = make_pack_policy(pack, has_baseline=pack.has_baseline)
    return PackIdentity(
        pack=pack.name,
        version=pack.version,
        policy=_find_policy_digest(policy, policy.digest),
        snapshots=tuple(sorted(set(opened.references) - replayed)),
        definition=_digest_definition(plain(pack), digest(describe_scoring(opened)), labels),
    )


def _find_policy_digest(policy: Policy, own_digest: str) -> str:
    """Return the digest of the rules that a pack makes; an exam without a pack has its own."""
    named = policy.settings.get(PACK_POLICY)
    return named if isinstance(named, str) else own_digest


def _read_definition(result: Result, blobs: BlobStore) -> str | None:
    """Return the definition of the pack stored with a result, or None if there is no pack."""
    kept = {blob.name: blob.digest for blob in result.blobs}
    if PACK_BLOB not in kept:
        return None
    data = blobs.get(kept[PACK_BLOB])
    read_pack(data, result.pack.digest, f"result {result.id}: {PACK_BLOB}")
    labels = {name: found for name, found in kept.items() if name.startswith(_LABELS)}
    return _digest_definition(msgspec.json.decode(data), result.runtime.get(_SCORING), labels)


class _PackDocument(TypedDict):
    """The fields of a pack document that are not part of its identity; others are not listed."""

    targets: NotRequired[object]
    matrix: NotRequired[object]
    candidates: NotRequired[object]
    suites: list[dict[str, object]]


def _digest_definition(pack: _PackDocument, scoring: str | None, labels: Mapping[str, str]) -> str:
    """Return a digest of a pack without its targets: how suites ask, draw, score and judge.

    ``pack`` is the document, not the type, so that fields this build does not know count too.
    """
    del pack["targets"]
    # Other candidates that were tried only make the tests stricter.
    pack.pop("matrix", None)
    pack.pop("candidates", None)
    for suite in pack["suites"]:
        if suite["kind"] == REPLAY:
            del suite["dataset"]
        for files in ("evidence", "baseline_evidence"):
            # A candidate brings its own evidence; only the roles of the files belong to the pack.
            brought = suite[files]
            if isinstance(brought, dict):
                suite[files] = sorted(brought)
    return digest({"pack": pack, "scoring": scoring, "labels": dict(labels)})
