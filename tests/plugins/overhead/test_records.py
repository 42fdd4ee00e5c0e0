from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.evidence.diagnose import diagnose
from gatemark.plugins.overhead.records import (
    SCHEMA,
    ArmMeta,
    CountWindow,
    LossWindow,
    RunSeeds,
    WindowPlan,
)
from gatemark.testing.schemas import check_schema

WINDOW = {"record_type": "window", "window_id": "w1", "content_hash": "h", "tokens": 9}
NUMBERS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()


def required(noun: type[msgspec.Struct]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(noun) if field.required}


def test_examples_types_and_document_agree() -> None:
    check_schema(SCHEMA)


def test_the_contract_names_exactly_these_fields() -> None:
    assert required(ArmMeta) == {
        *("record_type", "arm", "metric_kind", "seeds", "device", "snapshot_hash", "plan"),
    }
    assert required(RunSeeds) == {"python", "numpy", "torch", "bootstrap"}
    assert required(WindowPlan) == {"seq_len", "stride", "windows"}
    assert required(LossWindow) == {"record_type", "window_id", "content_hash", "tokens", "loss"}
    assert required(CountWindow) == {
        *("record_type", "window_id", "content_hash", "correct", "total"),
    }


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("ppl_causal", "window_loss"),
        ("ppl_mlm", "window_loss"),
        ("ppl_seq2seq", "window_loss"),
        ("accuracy", "window_counts"),
    ],
)
def test_the_first_line_says_what_the_windows_are(kind: str, form: str) -> None:
    meta = dict(SCHEMA.form("arm_meta").good[0]) | {"metric_kind": kind}
    assert SCHEMA.body is not None
    assert SCHEMA.body(msgspec.convert(meta, ArmMeta)) == form


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(st.sampled_from(["loss", "tokens", "correct", "total"]), NUMBERS))
def test_any_window_is_usable_or_has_problems(values: dict[str, Any]) -> None:
    line = json.dumps(WINDOW | values).encode()
    if not diagnose(line, SCHEMA.form("window_loss"), max_depth=8):
        found = msgspec.json.decode(line, type=LossWindow)
        assert 0 <= found.loss < float("inf")
        assert found.tokens >= 1
    if not diagnose(line, SCHEMA.form("window_counts"), max_depth=8):
        counts = msgspec.json.decode(line, type=CountWindow)
        assert 0 <= counts.correct <= counts.total
        assert counts.total >= 1
