"""The example: a model that learned something, and guards that really act."""

from __future__ import annotations

import importlib.util
import math
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gatemark.core.errors import BadInputError
from gatemark.plugins.overhead.targets.port import OverheadTarget, PassSeeds

Run = Callable[..., Any]
EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "guard-overhead" / "numpy_lm.py"


def load_example() -> Any:
    """The module of the example, which is no package."""
    found = importlib.util.spec_from_file_location("numpy_lm", EXAMPLE)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    # Its structs look their types up by the name of their module.
    sys.modules["numpy_lm"] = module
    found.loader.exec_module(module)
    return module


numpy_lm = load_example()
SMALL = "{guard: %s, windows: 200, steps: 300}"


def configure(folder: Path, guard: str) -> Path:
    shutil.copy(EXAMPLE, folder)
    path = folder / f"{guard}.yaml"
    path.write_text(
        "gatemark_overhead: 1\ntarget: {python: 'numpy_lm:build'}\n"
        f"options: {SMALL % guard}\nseeds: {{python: 1, numpy: 1, bootstrap: 1}}\nout: {guard}\n"
    )
    return path


def test_the_corpus_is_made_of_its_words_and_repeats_with_its_seed() -> None:
    one, two = (numpy_lm.make_tokens(5_000, np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(one, two)
    assert set(one.tolist()) == set(range(len(numpy_lm.VOCABULARY)))
    assert numpy_lm.VOCABULARY[one[0]] in ("the", "a", "every", "some")


def test_the_model_learns_far_more_than_how_often_words_come() -> None:
    target = numpy_lm.build({"windows": 60, "steps": 300}, PassSeeds(numpy=1))
    assert isinstance(target, OverheadTarget)
    outcomes = [target.evaluate(window) for window in target.windows()]
    perplexity = math.exp(
        sum(o.tokens * o.loss for o in outcomes) / sum(o.tokens for o in outcomes)
    )
    shares = np.bincount(numpy_lm.make_tokens(40_000, np.random.default_rng(9))) / 40_000
    by_frequency = math.exp(-float((shares * np.log(shares)).sum()))
    assert 4 < perplexity < by_frequency / 3


def test_harmless_guards_pass_and_harmful_ones_fail(gatemark: Run, tmp_path: Path) -> None:
    good = gatemark("overhead", "run", configure(tmp_path, "harmless"), "--json")
    bad = gatemark("overhead", "run", configure(tmp_path, "harmful"), "--json")
    found, lost = good.json["guard_overhead"], bad.json["guard_overhead"]
    assert (good.code, bad.code) == (0, 1)
    assert found["bare_ppl"] == lost["bare_ppl"]
    assert 0 < abs(found["overhead_ratio"] - 1) < 0.01
    assert lost["guarded_ppl"] > 1.05 * lost["bare_ppl"]
    assert lost["interval"]["low"] > 0.01
    assert found["noise"] == {"given": True, "overhead": 0.0, "floor": 0.0, "reason": None}
    before = {name: (tmp_path / "harmless" / name).read_bytes() for name in ("bare.jsonl",)}
    before["guarded.jsonl"] = (tmp_path / "harmless" / "guarded.jsonl").read_bytes()
    assert (tmp_path / "harmless" / "noise.jsonl").read_bytes() == before["bare.jsonl"]
    again = gatemark("overhead", "run", configure(tmp_path, "harmless"), "--json")
    assert again.json["guard_overhead"] == found
    for name, data in before.items():
        assert (tmp_path / "harmless" / name).read_bytes() == data
    assert (tmp_path / "harmful" / "bare.jsonl").read_bytes() == before["bare.jsonl"]


def test_the_state_comes_back_after_the_guards_changed_it() -> None:
    target = numpy_lm.build({"guard": "harmful", "windows": 4, "steps": 20}, PassSeeds(numpy=1))
    first, kept = target.fingerprint(), target.snapshot()
    target.toggle(guarded=True)
    assert target.fingerprint() != first
    target.restore(kept)
    assert target.fingerprint() == first
    assert (
        target.guards == numpy_lm.PRESETS["harmful"].names == ("clip", "spectral_cap", "variance")
    )


def test_each_guard_does_what_it_says() -> None:
    draw = np.random.default_rng(2)
    weights = draw.normal(size=(8, 5))
    largest = np.linalg.svd(weights, compute_uv=False)[0]
    assert np.linalg.svd(numpy_lm.cap_spectrum(weights, 0.5), compute_uv=False)[0] == pytest.approx(
        0.5
    )
    assert numpy_lm.cap_spectrum(weights, largest * 1.01) is weights
    assert numpy_lm.clip_values(np.array([-3.0, 0.5, 9.0]), 1.0).tolist() == [-1.0, 0.5, 1.0]
    assert numpy_lm.steady_variance(weights, weights.std() * 1.01, 0.05) is weights
    assert numpy_lm.steady_variance(weights, weights.std() * 2, 0.1).std() == pytest.approx(
        weights.std() * 1.8
    )
    assert numpy_lm.steady_variance(weights, weights.std() / 2, 0.1).std() == pytest.approx(
        weights.std() * 0.55
    )


@pytest.mark.parametrize(
    "options", [{"guard": "fierce"}, {"windows": 1}, {"guard": {"clip": -1}}, {"depth": 2}]
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadInputError, match="numpy_lm"):
        numpy_lm.build(options, PassSeeds())
