from __future__ import annotations

import pytest

from gatemark.core.errors import BadInputError
from gatemark.targets.port import Call, CallError, Reply
from gatemark.targets.recorded import RecordedTarget, build_recording

from .rigs import run

ROWS = [
    {"id": "a", "epoch": 0, "output": "yes", "confidence": 0.7, "latency_ms": 12.5, "error": None},
    {"id": "a", "epoch": 1, "output": "no", "confidence": None, "latency_ms": None, "error": None},
    {"id": "b", "epoch": 0, "output": None, "error": {"kind": "oom", "message": "too big"}},
]


def test_recorded_replies_come_back_by_id_and_epoch() -> None:
    target = RecordedTarget(build_recording(ROWS), digest="sha256:x")
    calls = [Call(id=i, epoch=e, input=None) for i, e in [("b", 0), ("a", 1), ("a", 0), ("c", 0)]]
    outcomes = run(target, calls)
    assert [o.key for o in outcomes] == [("a", 0), ("a", 1), ("b", 0), ("c", 0)]
    assert outcomes[0].reply == Reply(output="yes", latency_ms=12.5, confidence=0.7)
    assert outcomes[1].reply == Reply(output="no", latency_ms=None)
    assert outcomes[2].error == CallError("recorded", "oom: too big")
    told = "nothing was recorded for id 'c', epoch 0; ids in the recording look like 'a'"
    assert outcomes[3].error == CallError("missing", told)


def test_a_sample_recorded_twice_is_refused() -> None:
    with pytest.raises(BadInputError, match="id 'a', epoch 0 was recorded twice"):
        build_recording([ROWS[0], ROWS[0]])


def test_the_identity_is_the_digest_of_the_recording() -> None:
    assert RecordedTarget({}, digest="sha256:x").identity() == {
        "kind": "recorded",
        "digest": "sha256:x",
    }
