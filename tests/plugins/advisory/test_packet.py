from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .decisions import LANE, PROMISE, PROMOTION, good_lane

Run = Callable[..., Any]


@pytest.fixture
def sealed(gatemark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Seal an advisory result; gives its id."""
    monkeypatch.chdir(tmp_path)

    def seal(
        *records: Any, promotion: Any = PROMOTION, packing: Callable[[bytes], bytes] = bytes
    ) -> str:
        lane: dict[str, Any] = {"bounds": PROMISE}
        if promotion:
            lane["promotion"] = promotion
        Path("policy.json").write_text(json.dumps({"gatemark_advisory": 1, "lanes": {LANE: lane}}))
        lines = "".join(json.dumps(record) + "\n" for record in (*good_lane(), *records))
        Path("decisions.jsonl").write_bytes(packing(lines.encode()))
        ran = gatemark(
            *("score", "advisory", "decisions.jsonl", "--policy", "policy.json"),
            *("--seal", "--store", "store", "--actor", "ada"),
        )
        assert ran.code in (0, 1), ran.err
        found: str = gatemark("list", "--store", "store", "--json").json[0]["id"]
        return found

    return seal


def packet(gatemark: Run, result: str, *more: str, lane: str = LANE) -> Any:
    return gatemark("advisory", "packet", lane, "--result", result, "--store", "store", *more)


def test_a_candidate_has_a_packet_in_two_forms(gatemark: Run, sealed: Callable[..., str]) -> None:
    result = sealed()
    ran = packet(
        gatemark, result, "--rollback", "stop <it>", "-o", "p.md", "-o", "p.html", "--json"
    )
    assert ran.code == 0, ran.err
    told = ran.json
    assert (told["status"], told["blockers"]) == ("candidate for discussion", [])
    assert (told["scope"], told["reviewer"]) == (PROMOTION["scope"], PROMOTION["reviewer"])
    assert told["runs"] == ["run:0", "run:1", "run:2"]
    assert told["sealed_by"] == "ada"
    (agreement,) = [line for line in told["numbers"] if line.startswith("agreement_rate:")]
    assert agreement == "agreement_rate: 1 (n=108, 95% from 0.9657 to 1.0000)"
    assert told["models"]
    for name in ("p.md", "p.html"):
        text = Path(name).read_text()
        assert "candidates for discussion" in text
        assert "No authority is granted" in text
        assert "<it>" not in text


def test_compressed_records_name_their_runs_and_models(
    gatemark: Run, sealed: Callable[..., str]
) -> None:
    plain = packet(gatemark, sealed(), "--json").json
    packed = packet(gatemark, sealed(packing=gzip.compress), "--json").json
    for name in ("runs", "models"):
        assert packed[name] == plain[name] != []


def test_what_stands_against_a_lane_is_in_its_packet(
    gatemark: Run, sealed: Callable[..., str]
) -> None:
    bad = good_lane()[0]
    bad["decision_id"] = "01J" + "9" * 23
    bad["authority_flags"]["can_write_memory"] = True
    ran = packet(gatemark, sealed(bad))
    assert ran.code == 1
    assert "Status: blocked" in ran.out
    assert "advisory.authority" in ran.out.replace("\\", "")


def test_a_lane_without_a_scope_is_no_candidate(gatemark: Run, sealed: Callable[..., str]) -> None:
    ran = packet(gatemark, sealed(promotion=None), "--rollback", "stop it", "--json")
    assert ran.code == 1
    assert ran.json["blockers"]


def test_other_lanes_and_other_results_are_refused(
    gatemark: Run, sealed: Callable[..., str]
) -> None:
    ran = packet(gatemark, sealed(), lane="no/lane")
    assert ran.code == 2
    assert LANE in ran.err
