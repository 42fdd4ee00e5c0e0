"""``gatemark.arm/1``: one arm of a guard-overhead measurement, window by window.

The first line describes the arm; every other line is one window: its mean loss in nats per token
for perplexity kinds, or how many of its answers were correct.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from gatemark.core.record import BadExample, Form, Problem, RecordSchema

NAME: Final = "gatemark.arm/1"
MAX_COUNT: Final = 2**53 - 1
"""The largest integer that every JSON parser reads exactly."""

Text = Annotated[str, Meta(pattern=r"\S", max_length=512)]
Seed = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Positive = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
MetricKind = Literal["ppl_causal", "ppl_mlm", "ppl_seq2seq", "accuracy"]
MemorySource = Literal["device", "process", "python"]
"""Where a peak was read: the device of the target, the process, or Python's allocator."""


class RunSeeds(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The seeds of a run; null for a library that was not seeded."""

    python: Seed | None
    numpy: Seed | None
    torch: Seed | None
    bootstrap: Seed | None


class WindowPlan(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """How the text was cut: window length, step between windows, number of windows."""

    seq_len: Positive
    stride: Positive
    windows: Positive


class ArmMeta(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The first line of an arm file: its arm, and everything that both arms must share."""

    record_type: Literal["arm_meta"]
    arm: Literal["bare", "guarded"]
    metric_kind: MetricKind
    seeds: RunSeeds
    device: Text
    snapshot_hash: Text
    plan: WindowPlan
    guards: list[Text] | UnsetType = UNSET
    schema: Literal["gatemark.arm/1"] | UnsetType = UNSET


class LossWindow(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One window of a perplexity kind."""

    record_type: Literal["window"]
    window_id: Text
    content_hash: Text
    tokens: Positive
    loss: Annotated[float, Meta(ge=0)]


class CountWindow(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One window of an accuracy kind."""

    record_type: Literal["window"]
    window_id: Text
    content_hash: Text
    correct: Count
    total: Positive
    tokens: Positive | UnsetType = UNSET


def correct_is_at_most_total(window: CountWindow) -> list[Problem]:
    """Return a problem if a window has more correct answers than answers."""
    if window.correct <= window.total:
        return []
    return [Problem("$.correct", f"must be <= total {window.total}, got {window.correct}")]


def choose_form(meta: ArmMeta) -> str:
    """Return the type of the windows that follow a first line."""
    return "window_counts" if meta.metric_kind == "accuracy" else "window_loss"


_META: Final[dict[str, object]] = {
    "record_type": "arm_meta",
    "arm": "bare",
    "metric_kind": "ppl_causal",
    "seeds": {"python": 7, "numpy": 7, "torch": None, "bootstrap": 7},
    "device": "cpu",
    "snapshot_hash": "sha256:5c8f",
    "plan": {"seq_len": 128, "stride": 128, "windows": 400},
}
_LOSS: Final[dict[str, object]] = {
    "record_type": "window",
    "window_id": "w000001",
    "content_hash": "sha256:91ab",
    "tokens": 127,
    "loss": 2.163323025660538,
}
_COUNTS: Final[dict[str, object]] = {
    "record_type": "window",
    "window_id": "w000001",
    "content_hash": "sha256:91ab",
    "correct": 9,
    "total": 10,
}


def _drop_key(record: dict[str, object], key: str) -> dict[str, object]:
    return {name: value for name, value in record.items() if name != key}


SCHEMA: Final = RecordSchema(
    name=NAME,
    summary="One arm of a guard-overhead measurement: what it is, then its windows.",
    head="arm_meta",
    body=choose_form,
    forms=(
        Form(
            name="arm_meta",
            type=ArmMeta,
            marks=frozenset({"record_type", "arm", "metric_kind"}),
            identity="arm",
            good=(
                _META,
                _META | {"arm": "guarded", "guards": ["clip", "spectral_cap"], "schema": NAME},
                _META | {"metric_kind": "accuracy"},
            ),
            bad=(
                BadExample("a third arm", _META | {"arm": "control"}, "$.arm"),
                BadExample("an unknown kind", _META | {"metric_kind": "bleu"}, "$.metric_kind"),
                BadExample("no seeds", _drop_key(_META, "seeds"), "$"),
                BadExample("a seed left out", _META | {"seeds": {"python": 1}}, "$.seeds"),
                BadExample(
                    "no windows",
                    _META | {"plan": {"seq_len": 8, "stride": 8, "windows": 0}},
                    "$.plan.windows",
                ),
                BadExample("a blank snapshot", _META | {"snapshot_hash": " "}, "$.snapshot_hash"),
                BadExample("a key nobody knows", _META | {"skipped": True}, "$"),
            ),
        ),
        Form(
            name="window_loss",
            type=LossWindow,
            marks=frozenset({"record_type", "window_id", "loss"}),
            identity="window_id",
            good=(_LOSS, _LOSS | {"loss": 3}, _LOSS | {"loss": 0}),
            bad=(
                BadExample("a negative loss", _LOSS | {"loss": -0.5}, "$.loss"),
                BadExample("no loss", _LOSS | {"loss": None}, "$.loss"),
                BadExample("a loss in words", _LOSS | {"loss": "2.1"}, "$.loss"),
                BadExample("a loss of true", _LOSS | {"loss": True}, "$.loss"),
                BadExample("no tokens", _LOSS | {"tokens": 0}, "$.tokens"),
                BadExample("half a token", _LOSS | {"tokens": 12.5}, "$.tokens"),
                BadExample("no content", _drop_key(_LOSS, "content_hash"), "$"),
                BadExample("a numeric id", _LOSS | {"window_id": 1}, "$.window_id"),
                BadExample("an id of two lines", _LOSS | {"window_id": "a\nb"}, "$.window_id"),
                BadExample("counts beside the loss", _LOSS | {"correct": 1, "total": 2}, "$"),
            ),
        ),
        Form(
            name="window_counts",
            type=CountWindow,
            marks=frozenset({"record_type", "window_id", "correct"}),
            identity="window_id",
            good=(_COUNTS, _COUNTS | {"tokens": 127, "correct": 0}),
            bad=(
                BadExample("a total of zero", _COUNTS | {"correct": 0, "total": 0}, "$.total"),
                BadExample("more correct than asked", _COUNTS | {"correct": 11}, "$.correct"),
                BadExample("a negative count", _COUNTS | {"correct": -1}, "$.correct"),
                BadExample("no total", _drop_key(_COUNTS, "total"), "$"),
                BadExample("a share", _COUNTS | {"correct": 0.9}, "$.correct"),
            ),
            rules=(correct_is_at_most_total,),
        ),
    ),
)
