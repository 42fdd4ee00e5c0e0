"""The check that every exam passes: its fold is order-independent and its state serializable."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

import msgspec
import numpy as np

from gatemark.evidence.exam import Exam, ExamReport

S = TypeVar("S", bound=msgspec.Struct)

_SEED = 23
_ROUNDS = 4


def check_exam(exam: Exam[S], records: Sequence[object]) -> None:
    """Raise AssertionError unless every split and every order of merging give the same report.

    The records keep their order, as the lines of a file do. They are cut into shards, folded
    separately, serialized, and merged in random order. The policy must not be empty.
    """
    if not exam.policy().rules:
        raise AssertionError(f"{type(exam).__name__} has no rules")
    expected = exam.finish(_fold_shard(exam, 0, records))
    _check_names(exam, expected)
    rng = np.random.default_rng(_SEED)
    for _ in range(_ROUNDS):
        cuts = np.sort(rng.integers(0, len(records) + 1, size=int(rng.integers(1, 6))))
        edges = [0, *(int(cut) for cut in cuts), len(records)]
        states = [
            _fold_shard(exam, shard, records[start:end])
            for shard, (start, end) in enumerate(pairwise(edges))
        ]
        while len(states) > 1:
            left = states.pop(int(rng.integers(len(states))))
            right = states.pop(int(rng.integers(len(states))))
            states.append(_send_and_receive(exam, exam.finalize_shard(exam.merge(left, right))))
        if _encode_report(exam.finish(states[0])) != _encode_report(expected):
            raise AssertionError(
                f"{type(exam).__name__} gives a different report when cut at {edges}"
            )


def _fold_shard(exam: Exam[S], shard: int, records: Sequence[object]) -> S:
    state = exam.zero(shard)
    for start in range(0, len(records), 7):
        state = exam.step(state, records[start : start + 7])
    return _send_and_receive(exam, exam.finalize_shard(state))


def _send_and_receive(exam: Exam[S], state: S) -> S:
    received: S = msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=exam.state)
    return received


def _encode_report(report: ExamReport) -> bytes:
    return msgspec.json.encode(report)


def _check_names(exam: Exam[S], report: ExamReport) -> None:
    names = [number.key for number in report.measurements]
    if len(set(names)) != len(names):
        raise AssertionError(f"{type(exam).__name__} measures a name twice")
