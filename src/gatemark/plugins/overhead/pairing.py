"""Check that two arms measured the same windows under the same conditions.

(1) Both arms exist and have the expected roles. (2) Each has exactly the windows of its plan, and
all are usable. (3) Kind, plan, seeds, device and snapshot are equal. (4) Window ids, contents and
weights are equal one by one, in the same order.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

import msgspec

from gatemark.evidence.inputs import normalize_ids
from gatemark.plugins.overhead.arms import (
    LISTED_IDS,
    SHOWN_IDS,
    ArmFile,
    Defect,
    Role,
    list_first,
    make_defect,
)

EQUAL_FIELDS: Final = (
    ("pair.kind", "metric_kind"),
    ("pair.plan", "plan"),
    ("pair.seeds", "seeds"),
    ("pair.device", "device"),
    ("pair.snapshot", "snapshot_hash"),
)


class WindowPairing(NamedTuple):
    """Every defect, and the number of windows that pair."""

    defects: tuple[Defect, ...]
    paired_count: int
    expected_count: int
    duplicate_count: int


def pair_arms(bare: ArmFile, guarded: ArmFile, other_role: Role = "guarded") -> WindowPairing:
    """Compare two arms; ``other_role`` is the role of the second."""
    defects = [
        # Step 1.
        *_check_arm(bare, "bare"),
        *_check_arm(guarded, other_role),
    ]
    duplicates = _count_extra_copies(bare) + _count_extra_copies(guarded)
    expected = max(bare.expected, guarded.expected, len(bare.ids), len(guarded.ids))
    if bare.meta is None or guarded.meta is None:
        return WindowPairing(tuple(defects), 0, expected, duplicates)
    # Step 3.
    for check, field in EQUAL_FIELDS:
        left, right = (msgspec.to_builtins(getattr(m, field)) for m in (bare.meta, guarded.meta))
        if left != right:
            defects.append(
                make_defect(check, f"{field} differs: bare has {left}, {other_role} has {right}")
            )
    # Step 4.
    defects.extend(_compare_windows(bare, guarded, other_role))
    return WindowPairing(tuple(defects), _count_paired(bare, guarded), expected, duplicates)


def _check_arm(arm: ArmFile, role: Role) -> list[Defect]:
    if arm.meta is None:
        return [make_defect("arm.missing", f"{role} arm: {arm.absent}")]
    found = []
    side = {"noise": "bare", "repeat": "guarded"}.get(role, role)
    if arm.meta.arm != side:
        found.append(
            make_defect(
                "arm.role", f"{arm.label} was given as {role} but says it is {arm.meta.arm}"
            )
        )
    guards = arm.meta.guards
    if arm.meta.arm == "bare" and guards:
        active = ", ".join(guards)
        found.append(make_defect("arm.guards", f"{role} arm must have no guards, has {active}"))
    if arm.meta.arm == "guarded" and guards == []:
        found.append(make_defect("arm.guards", f"{role} arm must have guards, its list is empty"))
    # Step 2.
    if arm.damage is not None:
        found.append(make_defect("arm.damaged", f"{role} arm: {arm.damage}"))
    if arm.hole_count:
        found.append(_describe_holes(arm, role))
    if repeated := [name for name, count in Counter(arm.ids).items() if count > 1]:
        found.append(
            make_defect("arm.duplicate_window", f"{role} arm has windows more than once", repeated)
        )
    if copied := _find_copied_windows(arm):
        found.append(
            make_defect("arm.copied_window", f"{role} arm repeats content in other windows", copied)
        )
    have = len(arm.ids) + arm.hole_count
    if have != arm.expected:
        found.append(
            make_defect(
                "arm.window_count",
                f"{role} arm holds {have} windows, its plan has {arm.expected}",
            )
        )
    return found


def _describe_holes(arm: ArmFile, role: Role) -> Defect:
    holes_shown = [
        f"{hole.window_id or 'unreadable id'} ({arm.label}:{hole.line}: {hole.problem})"
        for hole in arm.holes[:LISTED_IDS]
    ]
    ids = tuple(hole.window_id for hole in arm.holes[:SHOWN_IDS] if hole.window_id is not None)
    listed = list_first(holes_shown, "; ", arm.hole_count)
    return Defect(
        "arm.unusable_window",
        f"{role} arm has windows without a usable value: {listed}",
        ids,
        arm.hole_count,
    )


def _compare_windows(bare: ArmFile, other: ArmFile, role: Role) -> list[Defect]:
    if _is_same(bare, other):
        return []
    found = []
    left, right = _index_windows(bare), _index_windows(other)
    for present, absent, arm, side, lacking in (
        (left, right, other, "bare", role),
        (right, left, bare, role, "bare"),
    ):
        # A window that is present but unusable has a defect of its own.
        unusable = {hole.window_id for hole in arm.holes}
        lonely = [name for name in present if name not in absent and name not in unusable]
        if lonely:
            found.append(
                make_defect("pair.windows", f"only the {side} arm, not the {lacking}, has", lonely)
            )
    common = [name for name in left if name in right]
    if common != [name for name in right if name in left]:
        found.append(
            make_defect("pair.order", f"bare and {role} have their windows in another order")
        )
    for check, message, part in (
        ("pair.content", "the same window has another content hash", slice(1)),
        ("pair.weight", "the same window has other tokens or answers", slice(1, None)),
    ):
        if others := [name for name in common if left[name][part] != right[name][part]]:
            found.append(make_defect(check, message, others))
    return found


def _index_windows(arm: ArmFile) -> dict[str, tuple[str, int, int | None]]:
    """Return content, weight and token count of each window."""
    tokens: list[int | None] = arm.token_counts or [None] * len(arm.ids)
    return dict(zip(arm.ids, zip(arm.contents, arm.weights, tokens, strict=True), strict=True))


def _find_copied_windows(arm: ArmFile) -> list[str]:
    """Return the windows with the content of an earlier one, under another id."""
    contents = normalize_ids(arm.contents)
    if len(set(contents)) == len(contents):
        return []
    first: dict[str, str] = {}
    return [
        name
        for name, content in zip(arm.ids, contents, strict=True)
        if first.setdefault(content, name) != name
    ]


def _count_extra_copies(arm: ArmFile) -> int:
    return len(arm.ids) - min(len(set(arm.ids)), len(set(normalize_ids(arm.contents))))


def _is_same(bare: ArmFile, other: ArmFile) -> bool:
    return all(
        getattr(bare, column) == getattr(other, column)
        for column in ("ids", "contents", "weights", "token_counts")
    )


def _count_paired(bare: ArmFile, other: ArmFile) -> int:
    if _is_same(bare, other):
        return len(set(bare.ids))

    def rows(arm: ArmFile) -> set[tuple[str, str, int]]:
        return set(zip(arm.ids, arm.contents, arm.weights, strict=True))

    return len(rows(bare) & rows(other))
