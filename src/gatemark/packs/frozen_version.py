"""Refuse to run a pack whose name and version already have a result with other content.

The name and version of a pack stand for one content as long as a store has its results. Otherwise a
pack could be loosened after a bad verdict and pass under a trusted name. The content is everything
that decides: rules, suites, data, judges with their labels, and scorers with their code. Who
answers (targets, a matrix of them, evidence files) is what a pack examines and may change, except
that a baseline must not be removed.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gatemark.core.errors import (
    BadInputError,
    IntegrityError,
    NewerFormatError,
    OtherRulesError,
)
from gatemark.core.result import PACK_BLOB, Result
from gatemark.evidence.settings_file import place_in, settings_text
from gatemark.packs.conditions import ASKED, IN_PROCESS, UNASKED, read_conditions
from gatemark.packs.limited_runs import read_limit
from gatemark.packs.origin import JUDGED_AGAIN, LABELS, SCORER_CODE
from gatemark.packs.pack import Pack
from gatemark.packs.pack_file import OpenPack, digest_scorer_code
from gatemark.packs.stored_pack import make_title, read_pack_of_result
from gatemark.workspace import Workspace

_EXAMINED = ("evidence", "baseline_evidence")
_REPLAY = "replay"
"""A suite over recent traffic, whose data changes every time."""
_LISTED = 5


def refuse_changed_version(workspace: Workspace, opened: OpenPack, path: str) -> None:
    """Refuse a pack whose name and version have a sealed result with other content."""
    earlier = _find_last_whole_result(workspace, opened.pack)
    if earlier is None:
        return
    changed = list(_list_changes(read_pack_of_result(workspace, earlier), earlier, opened))
    if not changed:
        return
    pack = opened.pack
    listed = ", ".join(changed[:_LISTED]) + (" and more" if len(changed) > _LISTED else "")
    line, _ = place_in(settings_text(path), "$.version")
    raise BadInputError(
        f"{path}:{line}: version {pack.version} of pack {pack.name} already has a result with "
        f"other content ({earlier.id[7:19]} of {earlier.finished_at:%Y-%m-%d %H:%MZ}); changed "
        f"since: {listed}. Set version: {pack.version + 1}; to try changes first, use --limit or "
        "another --store"
    )


def _find_last_whole_result(workspace: Workspace, pack: Pack) -> Result | None:
    """Return the newest result that a run of this pack sealed over all its items.

    Not counted: limited runs, runs with calls that could not be made or answers left out, and old
    evidence judged again; nor results of other rules, or that do not verify, which decide nothing.
    """
    if not workspace.has_store:
        return None
    title, results = make_title(pack), workspace.store.results
    for identity in reversed(results.ids_by_title(title).get(title, [])):
        try:
            result = workspace.citable_result(identity)
        except (IntegrityError, NewerFormatError, OtherRulesError):
            continue
        if (
            any(blob.name == PACK_BLOB for blob in result.blobs)
            and read_limit(result) is None
            and not {ASKED, IN_PROCESS, UNASKED} & set(read_conditions(result))
            and JUDGED_AGAIN not in result.runtime
        ):
            return result
    return None


def _list_changes(before: Pack, earlier: Result, opened: OpenPack) -> Iterator[str]:
    """Name the keys and data sets that differ."""
    old, new = _select_content(before), _select_content(opened.pack)
    yield from (key for key in new if new[key] != old.get(key))
    if before.has_baseline and not opened.pack.has_baseline:
        yield "targets.baseline"
    replayed = {
        evidence.checks.get("snapshot")
        for evidence in earlier.evidence
        if evidence.checks.get("kind") == _REPLAY
    }
    replays = {opened.snapshots[s.id].reference for s in opened.pack.suites if s.kind == _REPLAY}
    kept = earlier.runtime
    code = digest_scorer_code(opened)
    for suite in opened.pack.suites:
        if kept.get(SCORER_CODE + suite.id) != code.get(suite.id):
            yield f"code of the scorer of {suite.id}"
        labels = None if suite.judge is None else opened.labels[suite.judge].reference
        if kept.get(LABELS + suite.id) != labels:
            yield f"labels of judge {suite.judge}"
    differing = (set(opened.references) - replays) ^ (set(earlier.snapshots) - replayed)
    yield from sorted({name.partition("@")[0] for name in differing})


def _select_content(pack: Pack) -> dict[str, object]:
    """Return what decides in a pack, by the keys of its file."""
    fields: dict[str, object] = msgspec.to_builtins(pack)
    for examined in ("targets", "suites", "matrix", "candidates"):
        del fields[examined]
    for suite in pack.suites:
        values = msgspec.to_builtins(suite)
        free = {*_EXAMINED, "dataset"} if suite.kind == _REPLAY else {*_EXAMINED}
        fields[f"suite {suite.id}"] = {k: v for k, v in values.items() if k not in free}
    fields["suites"] = [suite.id for suite in pack.suites]
    return fields
