"""The proof that two arms are about the same windows."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.plugins.overhead.arms import SHOWN_IDS, ArmFile, Hole
from gatemark.plugins.overhead.costs import digest_schedule
from gatemark.plugins.overhead.pairing import pair_arms
from gatemark.plugins.overhead.records import ArmMeta

from . import arms


def meta(arm: str = "bare", **more: Any) -> ArmMeta:
    return msgspec.convert(arms.meta(arm, **more), ArmMeta)


def arm(role: str = "bare", count: int = 6, **more: Any) -> ArmFile:
    return ArmFile(
        role=role,  # type: ignore[arg-type]
        name=f"folder/{role}.jsonl",
        meta=meta(role, windows=count),
        ids=[f"w{i}" for i in range(count)],
        contents=[f"h{i}" for i in range(count)],
        weights=[10 + i for i in range(count)],
        values=[2.0] * count,
        **more,
    )


def changed(found: ArmFile, **fields: Any) -> ArmFile:
    return msgspec.structs.replace(copy.deepcopy(found), **fields)


def checks(bare: ArmFile, guarded: ArmFile) -> list[str]:
    return [found.check for found in pair_arms(bare, guarded).defects]


def test_equal_arms_pair() -> None:
    assert pair_arms(arm(), arm("guarded")) == ((), 6, 6, 0)


GUARDED = arm("guarded")
OTHER_SEEDS = {"python": 8, "numpy": 7, "torch": None, "bootstrap": 7}
BROKEN: dict[str, tuple[ArmFile, ArmFile]] = {
    "arm.missing": (arm(), ArmFile(role="guarded", name="x", absent="no file was given")),
    "arm.role": (arm(), arm("bare")),
    "arm.guards": (changed(arm(), meta=meta(windows=6, guards=["clip"])), GUARDED),
    "arm.damaged": (arm(), changed(GUARDED, damage="gzip data is damaged")),
    "arm.unusable_window": (
        arm(),
        changed(
            GUARDED,
            ids=GUARDED.ids[:-1],
            contents=GUARDED.contents[:-1],
            weights=GUARDED.weights[:-1],
            holes=[Hole(7, "w5", "not JSON")],
            hole_count=1,
        ),
    ),
    "arm.duplicate_window": (arm(), changed(GUARDED, ids=["w0", "w0", "w2", "w3", "w4", "w5"])),
    "arm.copied_window": (arm(), changed(GUARDED, contents=["h0", "H0", *GUARDED.contents[2:]])),
    "arm.window_count": (arm(), changed(GUARDED, meta=meta("guarded", windows=7))),
    "pair.kind": (arm(), changed(GUARDED, meta=meta("guarded", windows=6, metric_kind="ppl_mlm"))),
    "pair.plan": (arm(), changed(GUARDED, meta=meta("guarded", windows=7))),
    "pair.seeds": (arm(), changed(GUARDED, meta=meta("guarded", windows=6, seeds=OTHER_SEEDS))),
    "pair.device": (arm(), changed(GUARDED, meta=meta("guarded", windows=6, device="npu"))),
    "pair.snapshot": (arm(), changed(GUARDED, meta=meta("guarded", windows=6, snapshot_hash="b"))),
    "pair.windows": (arm(), changed(GUARDED, ids=[*GUARDED.ids[:-1], "other"])),
    "pair.order": (
        arm(),
        changed(
            GUARDED,
            ids=GUARDED.ids[::-1],
            contents=GUARDED.contents[::-1],
            weights=GUARDED.weights[::-1],
        ),
    ),
    "pair.content": (arm(), changed(GUARDED, contents=["h0", "x", *GUARDED.contents[2:]])),
    "pair.weight": (arm(), changed(GUARDED, weights=[1, *GUARDED.weights[1:]])),
}


@pytest.mark.parametrize("check", BROKEN)
def test_every_check_can_fail(check: str) -> None:
    assert check in checks(*BROKEN[check])


def test_what_only_one_arm_has_is_told_with_its_side() -> None:
    short = arm("guarded", 4)
    found = {d.check: d for d in pair_arms(arm(), short).defects}
    assert found["pair.windows"].message == "only the bare arm, not the guarded, has: w4, w5"
    assert found["pair.windows"].window_ids == ("w4", "w5")


def test_long_lists_of_ids_are_cut_and_counted() -> None:
    bare, guarded = arm(count=100), arm("guarded", 100)
    found = pair_arms(bare, changed(guarded, contents=[f"x{n}" for n in range(100)])).defects[0]
    assert (len(found.window_ids), found.count) == (SHOWN_IDS, 100)
    assert found.message.endswith(": w0, w1, w2 and 97 more")


def test_a_bad_line_is_named_without_its_folder() -> None:
    (found,) = (
        d for d in pair_arms(*BROKEN["arm.unusable_window"]).defects if "unusable" in d.check
    )
    assert "w5 (guarded.jsonl:7: not JSON)" in found.message


def test_the_schedule_names_content_weights_and_plan() -> None:
    first = digest_schedule(arm())
    others = [
        changed(arm(), contents=["x"] * 6),
        changed(arm(), weights=[1] * 6),
        changed(arm(), ids=[f"v{i}" for i in range(6)]),
        changed(arm(), meta=meta(windows=6, plan={"seq_len": 8, "stride": 4, "windows": 6})),
    ]
    assert len({first, *(digest_schedule(other) for other in others)}) == 5
    assert digest_schedule(changed(arm(), values=[9.0] * 6)) == first


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from(["ids", "contents", "weights"]),
    st.integers(0, 5),
    st.sampled_from(["change", "drop", "twice", "swap"]),
)
def test_no_change_of_a_window_goes_unnoticed(column: str, place: int, act: str) -> None:
    guarded = arm("guarded")
    columns = {name: list(getattr(guarded, name)) for name in ("ids", "contents", "weights")}
    if act == "change":
        columns[column][place] = 999 if column == "weights" else "changed"
    elif act == "swap":
        other = (place + 1) % 6
        values = columns[column]
        values[place], values[other] = values[other], values[place]
    else:
        for values in columns.values():
            values[place : place + 1] = values[place : place + 1] * (0 if act == "drop" else 2)
    assert checks(arm(), changed(guarded, **columns))
