"""Trains the reference models on the training half and saves them as OpenVINO IR.

Run ``python tools/make_advisory_models.py`` after changing fixtures or features. The evaluation
half is never opened here. Cases that a rule settles before any model is asked are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import openvino as ov
from openvino import opset13 as ops

from gatemark.core.canonical import digest_bytes
from gatemark.plugins.advisory.dry_run.payload import compute_row, encode_payload, settle_by_rule
from gatemark.plugins.advisory.fixtures.fixture import (
    FIXTURE_LANES,
    VOICE_LANE,
    Fixture,
    open_builtin,
)
from gatemark.plugins.advisory.gateway.models import (
    CARDS,
    FOLDER,
    LABEL_OUTPUT,
    ROW_INPUT,
    SEVERITY_OUTPUT,
    ModelCard,
    ModelCards,
)
from softmax_training import Head, fit_head

RIDGE: Final = 3e-4
"""Chosen by five-fold cross-validation over the training half."""


def trained_heads(input_class: str, fixtures: Sequence[Fixture]) -> tuple[Head, Head]:
    """One layer for the label and one for the severity of a lane."""
    rows, labels, severities = [], [], []
    for fixture in fixtures:
        if fixture.input_class != input_class or fixture.expected is None:
            continue
        payload = encode_payload(input_class, fixture.payload)
        if settle_by_rule(input_class, payload) is None:
            rows.append(compute_row(input_class, payload).astype(np.float64))
            labels.append(fixture.expected.label)
            severities.append(fixture.expected.severity)
    table, rescale = np.array(rows), input_class == VOICE_LANE
    return (
        fit_head(table, labels, ridge=RIDGE, rescale=rescale),
        fit_head(table, severities, ridge=RIDGE, rescale=rescale),
    )


def build_model(input_class: str, heads: tuple[Head, Head]) -> ov.Model:
    """Two softmax layers over one row, as an OpenVINO model of fixed shape."""
    row = ops.parameter([1, heads[0].weights.shape[0]], np.float32, name=ROW_INPUT)
    outputs = []
    for name, head in zip((LABEL_OUTPUT, SEVERITY_OUTPUT), heads, strict=True):
        weights = ops.constant(head.weights.astype(np.float32))
        bias = ops.constant(head.bias.astype(np.float32))
        scores = ops.add(ops.matmul(row, weights, transpose_a=False, transpose_b=False), bias)
        shares = ops.softmax(scores, 1)
        shares.output(0).get_tensor().set_names({name})
        outputs.append(shares)
    return ov.Model(outputs, [row], input_class)


def write(folder: Path) -> None:
    """Train and save every lane's model, with the cards that pin them."""
    half = open_builtin("training")
    lanes = {}
    for lane in FIXTURE_LANES:
        heads = trained_heads(lane.input_class, half.fixtures)
        place = folder / f"{lane.input_class}.xml"
        ov.save_model(build_model(lane.input_class, heads), place, compress_to_fp16=False)
        lanes[lane.input_class] = ModelCard(
            labels=heads[0].names,
            severities=heads[1].names,
            width=heads[0].weights.shape[0],
            xml=digest_bytes(place.read_bytes()),
            bin=digest_bytes(place.with_suffix(".bin").read_bytes()),
        )
    cards = ModelCards(training=half.digest, openvino=ov.__version__, lanes=lanes)
    document = msgspec.json.format(msgspec.json.encode(cards), indent=1)
    (folder / CARDS).write_bytes(document + b"\n")


if __name__ == "__main__":
    write(Path(__file__).parent / FOLDER)
