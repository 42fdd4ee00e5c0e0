"""Small traces for tests: who says what when, made into records and read back by the rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gatemark.core.record import Remark
from gatemark.plugins.runlog.records.trace import Decoding, TraceRecord
from gatemark.plugins.runlog.records.trace_file_rules import Mode, TraceRules
from gatemark.plugins.runlog.traces.dataset import ScriptTurn, TraceOrigin, build_trace_records
from gatemark.plugins.runlog.traces.trace import Trace, build_trace

T0 = 1_700_000_000_000
ORIGIN = TraceOrigin(
    mas_run_id="mas_0a1b2c3d_test_0ad5f2b4_d22060bf",
    mac_commit="0a1b2c3d" * 5,
    exaid_commit="unknown",
    model="test",
    decoding=Decoding(temperature=0.0),
)


def turn(
    agent: str, start: int, texts: Sequence[str], *, step: int = 10, lag: int = 5
) -> ScriptTurn:
    """A turn whose first piece comes ``lag`` after its start, and the others in steps."""
    pieces = tuple((T0 + start + lag + step * place, text) for place, text in enumerate(texts))
    last = pieces[-1][0] if pieces else T0 + start
    return ScriptTurn(agent, T0 + start, pieces, last + lag)


def records(*turns: ScriptTurn, case_id: str = "case-1", stub: bool = False) -> list[TraceRecord]:
    return build_trace_records(case_id, list(turns), ORIGIN, stub=stub)


def looked_at(found: Sequence[Any], mode: Mode = "strict") -> tuple[TraceRules, list[Remark]]:
    rules = TraceRules(mode)
    remarks = [*rules.see(range(1, len(found) + 1), found), *rules.end()]
    return rules, remarks


def trace(*turns: ScriptTurn, case_id: str = "case-1", stub: bool = False) -> Trace:
    rules, remarks = looked_at(records(*turns, case_id=case_id, stub=stub))
    assert not [remark for remark in remarks if remark.grade == "error"], remarks
    return build_trace(rules)
