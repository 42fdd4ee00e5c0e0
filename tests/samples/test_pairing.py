from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import BadInputError, UsageError
from gatemark.samples.pairing import choose_score, pair_samples
from gatemark.samples.read_samples import SampleSet
from gatemark.samples.records import Sample, SampleError

ERROR = SampleError("Crash", "it broke")


def side(samples: list[Sample], cluster: str | None = None, **more: Any) -> SampleSet:
    found = SampleSet("side", "gatemark.sample/1")
    for one in samples:
        found.add(one, cluster)
    for name, value in more.items():
        setattr(found, name, value)
    return found


def sample(name: str, score: float | None = 1.0, **more: Any) -> Sample:
    scores = {} if "error" in more else {"exact": score}
    return Sample("gatemark.sample/1", name, more.pop("scores", scores), **more)


@st.composite
def sample_sets(draw: st.DrawFn) -> SampleSet:
    keys = draw(st.sets(st.tuples(st.sampled_from("abcdef"), st.integers(1, 3))))
    outcome = st.sampled_from(["error", None, 0.0, 0.5, 1.0])
    samples = []
    for name, epoch in sorted(keys):
        drawn = draw(outcome)
        more = {"error": ERROR} if drawn == "error" else {"score": drawn}
        samples.append(sample(name, epoch=epoch, **more))
    return side(samples)


@settings(deadline=None, max_examples=150)
@given(sample_sets(), sample_sets())
def test_every_sample_is_accounted_for(base: SampleSet, cand: SampleSet):
    pairing = pair_samples(base, cand, "exact", clustered=False)
    for place, own, other in ((0, base, cand), (1, cand, base)):
        column = own.scores.get("exact", {})
        assert len(own.keys) == len(column) + len(own.errors) + len(pairing.unscored[place])
        assert set(pairing.unpaired[place]) == own.keys.keys() - other.keys.keys()
        mean = pairing.means[place]
        assert mean.item_count == len({name for name, _ in own.keys})
        assert mean.scored_count <= mean.item_count
    shared = base.keys.keys() & cand.keys.keys()
    assert [item.id for item in pairing.items] == sorted({name for name, _ in shared})
    for item in pairing.items:
        keys = [key for key in shared if key[0] == item.id]
        for found, own in ((item.base, base), (item.cand, cand)):
            scores = [own.scores.get("exact", {}).get(key) for key in keys]
            if None in scores:
                assert found is None
            else:
                assert found == pytest.approx(math.fsum(scores) / len(scores))


@settings(deadline=None, max_examples=50)
@given(sample_sets(), sample_sets())
def test_swapping_the_sides_mirrors_the_pairing(base: SampleSet, cand: SampleSet):
    there = pair_samples(base, cand, "exact", clustered=False)
    back = pair_samples(cand, base, "exact", clustered=False)
    assert [(item.base, item.cand) for item in there.items] == [
        (item.cand, item.base) for item in back.items
    ]
    assert there.unpaired == back.unpaired[::-1]
    assert there.means == back.means[::-1]


def test_errors_count_as_zero_only_where_zero_is_the_worst():
    rows = [sample("a", 0.5), sample("b", error=ERROR)]
    (mean, _) = pair_samples(side(rows), side(rows), "exact", clustered=False).means
    assert (mean.scored, mean.over_all, mean.item_count) == (0.5, 0.25, 2)
    wide = [sample("a", 7.0), sample("b", error=ERROR)]
    (mean, _) = pair_samples(side(wide), side(wide), "exact", clustered=False).means
    assert (mean.scored, mean.over_all) == (7.0, None)


def test_an_item_in_two_clusters_is_refused():
    base = side([sample("a", cluster="x")], "cluster")
    cand = side([sample("a", cluster="y")], "cluster")
    with pytest.raises(BadInputError, match="'a' is in 'x' and 'y'"):
        pair_samples(base, cand, "exact", clustered=True)


def test_a_cluster_known_to_one_side_counts_for_both():
    base = side([sample("a", tags={"doc": "d1"}), sample("b")], "doc")
    cand = side([sample("a"), sample("b")], "doc")
    pairing = pair_samples(base, cand, "exact", clustered=True)
    assert [item.cluster for item in pairing.items] == ["d1", None]
    assert pairing.clusterless == ("b",)


def test_the_score_both_tools_show_first_is_taken():
    rows = [sample("a", scores={"success": 1, "style": 1})]
    base, cand = side(rows, headline="success"), side(rows, headline="success")
    assert choose_score(base, cand, None) == "success"
    assert choose_score(base, side(rows), None) == "success"
    with pytest.raises(UsageError, match="choose one with --score"):
        choose_score(base, side(rows, headline="style"), None)
    assert choose_score(base, cand, "style") == "style"


def test_a_side_that_errored_everywhere_does_not_object():
    crashed = side([sample("a", error=ERROR)])
    assert choose_score(side([sample("a")]), crashed, None) == "exact"
    assert choose_score(side([sample("a")]), crashed, "exact") == "exact"
    with pytest.raises(BadInputError, match="every sample"):
        choose_score(crashed, crashed, None)


def test_content_that_one_side_does_not_tell_is_not_different():
    base = side([sample("a", target="4", input={"x": 1, "y": 2})])
    same = side([sample("a", input={"y": 2, "x": 1})])
    assert pair_samples(base, same, "exact", clustered=False).different == {
        "doc_hash": (),
        "target": (),
        "input": (),
    }
    other = side([sample("a", target=4)])
    found = pair_samples(base, other, "exact", clustered=False).different
    assert found["target"] == (("a", 1),)
