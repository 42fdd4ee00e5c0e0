from __future__ import annotations

from functools import lru_cache

import numpy as np
import openvino as ov
import pytest
from sklearn.linear_model import LogisticRegression

from gatemark.core.errors import IntegrityError, UsageError
from gatemark.plugins.advisory.dry_run.payload import compute_row, encode_payload, settle_by_rule
from gatemark.plugins.advisory.fixtures.fixture import Fixture, open_builtin
from gatemark.plugins.advisory.gateway import models
from gatemark.plugins.advisory.gateway.models import (
    LaneModel,
    compile_model,
    load_cards,
    load_files,
)
from make_advisory_models import build_model, trained_heads
from softmax_training import Head, fit_head, softmax

LANE = "cron_n8n_event"


@lru_cache
def heads_of(lane: str) -> tuple[Head, Head]:
    return trained_heads(lane, open_builtin("training").fixtures)


def rows_of(lane: str, fixtures: tuple[Fixture, ...]) -> tuple[np.ndarray, list[str]]:
    rows, labels = [], []
    for fixture in fixtures:
        if fixture.input_class == lane and fixture.expected is not None:
            payload = encode_payload(lane, fixture.payload)
            if settle_by_rule(lane, payload) is None:
                rows.append(compute_row(lane, payload))
                labels.append(fixture.expected.label)
    return np.array(rows), labels


def test_training_reaches_the_optimum_that_scikit_learn_finds() -> None:
    rows, labels = rows_of(LANE, open_builtin("training").fixtures)
    ridge = 0.01
    ours = fit_head(rows.astype(float), labels, ridge=ridge, rescale=False)
    theirs = LogisticRegression(C=1 / (ridge * len(rows)), tol=1e-9, max_iter=5000)
    theirs.fit(rows.astype(float), labels)
    shares = softmax(rows @ ours.weights + ours.bias)
    assert ours.names == tuple(theirs.classes_)
    assert np.abs(shares - theirs.predict_proba(rows.astype(float))).max() < 1e-3


@pytest.mark.parametrize("lane", [LANE, "voice_audio"])
def test_the_shipped_models_are_what_the_script_trains(lane: str) -> None:
    card, heads, core = load_cards().lanes[lane], heads_of(lane), ov.Core()
    assert (heads[0].names, heads[1].names) == (card.labels, card.severities)
    shipped = core.read_model(*load_files(lane, card))
    rows, _ = rows_of(lane, open_builtin("training").fixtures[::7])
    runs = [
        compile_model(core, model, "CPU").compiled for model in (shipped, build_model(lane, heads))
    ]
    for row in rows:
        left, right = (run({"row": row[None, :]}) for run in runs)
        for output in ("label", "severity"):
            assert np.abs(left[output] - right[output]).max() < 1e-3


def test_the_cards_name_the_half_that_the_models_learned_from() -> None:
    cards = load_cards()
    assert cards.training == open_builtin("training").digest
    for lane, card in cards.lanes.items():
        assert load_files(lane, card)


def test_openvino_and_numpy_agree_to_single_precision() -> None:
    fixtures = open_builtin("training").fixtures
    head, _ = heads_of(LANE)
    placed = compile_model(ov.Core(), build_model(LANE, heads_of(LANE)), "CPU")
    assert placed.precision == "f32"
    for row in rows_of(LANE, fixtures)[0][:20]:
        expected = softmax(row[None, :].astype(float) @ head.weights + head.bias)
        assert np.abs(placed.compiled({"row": row[None, :]})["label"] - expected).max() < 1e-5


def test_without_an_npu_the_cpu_answers_and_says_why() -> None:
    core = ov.Core()
    if "NPU" in core.available_devices:
        pytest.skip("this machine has an NPU")
    lane = LaneModel(LANE, load_cards().lanes[LANE], core, "AUTO")
    assert (lane.device, lane.precision, lane.fallback) == ("CPU", "f32", "npu_absent")
    asked = LaneModel(LANE, load_cards().lanes[LANE], core, "CPU")
    assert asked.fallback == "cpu_requested"
    with pytest.raises(UsageError, match="device NPU was asked for, but npu absent"):
        LaneModel(LANE, load_cards().lanes[LANE], core, "NPU")


def test_a_device_that_is_there_is_compiled_for_by_name() -> None:
    core = ov.Core()
    model = core.read_model(*load_files(LANE, load_cards().lanes[LANE]))
    placed = compile_model(core, model, "AUTO", npu="CPU")
    assert (placed.device, placed.fallback) == ("CPU", None)


def test_the_same_row_gets_the_same_bits_every_time() -> None:
    lane = LaneModel(LANE, load_cards().lanes[LANE], ov.Core(), "CPU")
    row = compute_row(LANE, {"status": "error", "message": "run failed", "retries_left": 0})
    told = {lane.infer(row)[:3] for _ in range(20)}
    assert len(told) == 1


def test_a_model_file_that_was_changed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    card = load_cards().lanes[LANE]
    read = models._read_file
    monkeypatch.setattr(models, "_read_file", lambda name: read(name) + b" ")
    with pytest.raises(IntegrityError, match=r"model cron_n8n_event\.xml is not the file"):
        load_files(LANE, card)


def test_most_of_the_evaluation_half_is_answered_as_expected() -> None:
    core, fixtures = ov.Core(), open_builtin().fixtures
    for lane, card in load_cards().lanes.items():
        model = LaneModel(lane, card, core, "CPU")
        rows, labels = rows_of(lane, fixtures)
        told = [model.infer(row) for row in rows]
        right = [answer.label == label for answer, label in zip(told, labels, strict=True)]
        sure = [hit for hit, answer in zip(right, told, strict=True) if answer.confidence >= 0.8]
        assert np.mean(right) > 0.75, lane
        assert np.mean(sure) > 0.9, lane
