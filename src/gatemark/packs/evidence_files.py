"""The evidence files of a pack's suites: in its folder, or stored with a result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from gatemark.core.errors import UsageError
from gatemark.core.result import Result
from gatemark.ledger.port import BlobStore
from gatemark.packs.pack_file import BASELINE, CANDIDATE, OpenPack
from gatemark.packs.suite_spec import SuiteSpec


class SuiteFiles(msgspec.Struct, frozen=True):
    """The evidence files of one suite, by arm and role; None if there is no baseline."""

    candidate: dict[str, str]
    baseline: dict[str, str] | None

    def arms(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield each arm with its files."""
        yield CANDIDATE, self.candidate
        if self.baseline is not None:
            yield BASELINE, self.baseline


def list_pack_files(opened: OpenPack) -> dict[str, SuiteFiles]:
    """Return the evidence files that a pack names, relative to its folder."""
    found = {}
    for suite in opened.pack.suites:
        if suite.evidence is None:
            continue
        baseline = suite.baseline_evidence
        found[suite.id] = SuiteFiles(
            candidate=_place_in_folder(opened.folder, suite.evidence),
            baseline=_place_in_folder(opened.folder, baseline)
            if isinstance(baseline, dict)
            else None,
        )
    return found


def _place_in_folder(folder: Path, files: Mapping[str, str]) -> dict[str, str]:
    return {role: str(folder / path) for role, path in files.items()}


def name_evidence(suite: str, arm: str, role: str) -> str:
    """Return the name of a suite's evidence in a result."""
    return f"{suite}/{role}.{arm}.evidence"


def write_evidence_files(
    result: Result, suite: SuiteSpec, blobs: BlobStore, folder: Path
) -> dict[str, dict[str, str]]:
    """Write the evidence that a result stores for one suite into a folder, and return it by arm.

    Files keep the names they have in the pack, because findings may quote them.
    """
    found: dict[str, dict[str, str]] = {}
    own = suite.baseline_evidence
    names = {BASELINE: own} if isinstance(own, dict) else {}
    for blob in result.blobs:
        owner, _, rest = blob.name.partition("/")
        role, _, arm = rest.removesuffix(".evidence").rpartition(".")
        if owner == suite.id and blob.name == name_evidence(suite.id, arm, role):
            place = folder / blob.digest.rpartition(":")[2]
            place.mkdir(exist_ok=True)
            path = place / Path(names.get(arm, suite.evidence or {}).get(role, role)).name
            path.write_bytes(blobs.get(blob.digest))
            found.setdefault(arm, {})[role] = str(path)
    if CANDIDATE not in found:
        raise UsageError(f"result {result.id} holds no evidence of suite {suite.id!r}")
    return found


def find_baseline_evidence(
    opened: OpenPack, earlier: Result, blobs: BlobStore, folder: Path
) -> dict[str, SuiteFiles]:
    """Return the candidate's evidence that a pack names, beside that of a result as baseline."""
    files = list_pack_files(opened)
    for name, named in files.items():
        kept = write_evidence_files(earlier, opened.pack.suite(name), blobs, folder)
        files[name] = SuiteFiles(candidate=named.candidate, baseline=kept[CANDIDATE])
    return files


def find_stored_evidence(
    opened: OpenPack, earlier: Result, blobs: BlobStore, folder: Path
) -> dict[str, SuiteFiles]:
    """Return the evidence that a result stores for the suites of a pack, of every arm it has."""
    files = {}
    for suite in opened.pack.suites:
        if suite.evidence is None:
            continue
        kept = write_evidence_files(earlier, suite, blobs, folder)
        wants_baseline = isinstance(suite.baseline_evidence, dict)
        if wants_baseline and BASELINE not in kept:
            raise UsageError(f"result {earlier.id} holds no baseline evidence of {suite.id!r}")
        files[suite.id] = SuiteFiles(kept[CANDIDATE], kept[BASELINE] if wants_baseline else None)
    return files
