"""The name and version of a pack stand for one content, for as long as a store remembers them.

Otherwise a pack could be loosened after a bad verdict and pass under the name that people trust.
The content is everything that decides: rules, suites, judges and data. Who answers (targets, a
matrix of them, evidence files) is what a pack examines, and may change; only a baseline must not go
missing.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.core.result import Result
from gatemark.evidence.settings_file import place_in, settings_text
from gatemark.packs.arms import OpenPack
from gatemark.packs.baselines import pack_of
from gatemark.packs.conditions import ASKED, IN_PROCESS, conditions_of
from gatemark.packs.judge import title_of
from gatemark.packs.pack import RULES_SETTING, Pack
from gatemark.packs.rejudge import PACK_BLOB, limit_of
from gatemark.packs.seal import JUDGED_AGAIN
from gatemark.workspace import Workspace

_EXAMINED = ("evidence", "baseline_evidence")
_REPLAY = "replay"
"""A suite over recent traffic, whose data is newer every time."""
_LISTED = 5


def refuse_changed_version(workspace: Workspace, opened: OpenPack, path: str) -> None:
    """Refuse a pack whose name and version have a sealed result with other content."""
    earlier = _last_whole_result(workspace, opened.pack)
    if earlier is None:
        return
    changed = list(_changes(pack_of(workspace, earlier), earlier, opened))
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


def _last_whole_result(workspace: Workspace, pack: Pack) -> Result | None:
    """Return the newest result that a run of this pack sealed over all its items.

    Runs for debugging, runs that could not ask, and old evidence judged again freeze nothing; nor
    do results of builds that let a version change, which did not mark evidence judged again.
    """
    if not workspace.has_store:
        return None
    title, results = title_of(pack), workspace.store.results
    for identity in reversed(results.ids_by_title(title).get(title, [])):
        result = results.get(identity)
        if (
            any(blob.name == PACK_BLOB for blob in result.blobs)
            and RULES_SETTING in result.policy.settings
            and limit_of(result) is None
            and not {ASKED, IN_PROCESS} & set(conditions_of(result))
            and JUDGED_AGAIN not in result.runtime
        ):
            return result
    return None


def _changes(before: Pack, earlier: Result, opened: OpenPack) -> Iterator[str]:
    """Name the keys and data sets that differ."""
    old, new = _content(before), _content(opened.pack)
    yield from (key for key in new if new[key] != old.get(key))
    if before.has_baseline and not opened.pack.has_baseline:
        yield "targets.baseline"
    replayed = {
        evidence.checks.get("snapshot")
        for evidence in earlier.evidence
        if evidence.checks.get("kind") == _REPLAY
    }
    replays = {opened.snapshots[s.id].reference for s in opened.pack.suites if s.kind == _REPLAY}
    differing = (set(opened.references) - replays) ^ (set(earlier.snapshots) - replayed)
    yield from sorted({name.partition("@")[0] for name in differing})


def _content(pack: Pack) -> dict[str, object]:
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
