"""A shadow is measured beside the live version, and a policy can ask for that before a canary."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gatemark.cli.main import main
from gatemark.core.canonical import digest
from gatemark.core.errors import RefusedError
from gatemark.integrity import verify
from gatemark.ledger.verify import VerifyRequest
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import AdoptPolicy
from gatemark.release.lifecycle.model.nouns import ShadowPairs, VersionRef
from gatemark.release.lifecycle.model.release_policy import ReleasePolicy, ShadowRules
from gatemark.release.lifecycle.shadow import push_pairs

from .test_freshness import ASSET, Place, refusal

REF = VersionRef(asset=ASSET, version="2.0.0")
RULES = ShadowRules(min_pairs=100, agreement_min=0.9, latency_ratio_max=1.5)


class ShadowPlace(Place):
    """A store with a live version and a shadow, under a policy that asks for pairs."""

    def __init__(self, store: str) -> None:
        super().__init__(store)
        self.store = store
        policy = ReleasePolicy(name="measured", shadow=RULES)
        act(self.workspace, AdoptPolicy(actor="ada", policy=policy))
        self.enable_first()
        self.later(days=2)
        self.add("2.0.0")
        self.to_shadow("2.0.0", self.seal("2.0.0"))
        self.later(hours=2)
        self.compared = self.seal("2.0.0", baseline=digest("1.0.0"))
        self.approve("2.0.0", "canary_1", self.compared)

    def pairs(self, hours_ago: int = 1, **more: Any) -> ShadowPairs:
        end = self.now - timedelta(hours=hours_ago - 1)
        fields: dict[str, Any] = {
            "n": 100,
            "agreed": 95,
            "candidate_errors": 1,
            "live_errors": 1,
            "candidate_latency_ms": 120.0,
            "live_latency_ms": 100.0,
        }
        return ShadowPairs(start=end - timedelta(hours=1), end=end, **{**fields, **more})

    def push(self, *spans: ShadowPairs) -> Any:
        return push_pairs(self.workspace, REF, spans, actor="ann")


@pytest.fixture(params=["sqlite", "postgresql"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, new_postgres_url: Callable[[], str]
) -> Iterator[ShadowPlace]:
    store = str(tmp_path / "store") if request.param == "sqlite" else new_postgres_url()
    made = ShadowPlace(store)
    yield made
    assert verify(made.workspace, VerifyRequest()).issues == ()
    made.workspace.store.close()


def test_the_gate_to_a_canary_asks_for_pairs(place: ShadowPlace) -> None:
    said = refusal(lambda: place.promote("2.0.0", "canary_1", place.compared))
    assert "shadow must have 100 pairs with 1.0.0, got 0 (gatemark shadow push)" in said
    (done,) = place.push(place.pairs())
    assert done.is_change
    (again,) = place.push(place.pairs())
    assert not again.is_change
    place.promote("2.0.0", "canary_1", place.compared)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"agreed": 80}, "must agree with 1.0.0 in 0.9 of pairs, got 0.8 (n=100)"),
        ({"candidate_errors": 9}, "at most 0.01 more errors than 1.0.0, got 0.08"),
        ({"candidate_latency_ms": 200.0}, "latency_ms may be at most 1.5 times"),
        ({"candidate_latency_ms": None}, "latency_ms of the candidate was not measured"),
    ],
)
def test_pairs_that_show_harm_hold_the_shadow(
    place: ShadowPlace, numbers: dict[str, Any], words: str
) -> None:
    place.push(place.pairs(**numbers))
    assert words in refusal(lambda: place.promote("2.0.0", "canary_1", place.compared))


def test_spans_must_lie_in_shadow_and_not_overlap(place: ShadowPlace) -> None:
    assert "must lie between" in refusal(lambda: place.push(place.pairs(hours_ago=9)))
    place.push(place.pairs())
    with pytest.raises(RefusedError, match="overlaps one that was pushed"):
        place.push(place.pairs(agreed=99))


def test_pairs_come_from_a_file_and_a_bad_line_is_named(
    place: ShadowPlace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    span = {
        "start": f"{place.now - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}",
        "end": f"{place.now:%Y-%m-%dT%H:%M:%SZ}",
        "n": 100,
        "agreed": 95,
        "errors": {"candidate": 1, "live": 1},
        "latency_ms": {"candidate": 120, "live": 100},
    }
    file = tmp_path / "pairs.jsonl"
    file.write_text(json.dumps(span) + "\n" + json.dumps({**span, "agreed": 101}) + "\n")
    flags = [str(file), "--actor", "ann", "--store", place.store]
    assert main(["shadow", "push", str(REF), *flags]) == 2
    assert "pairs.jsonl:2: agreed and errors must not exceed n 100" in capsys.readouterr().err
