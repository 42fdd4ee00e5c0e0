"""The reference models: verified against their cards, compiled for a named device."""

from __future__ import annotations

import threading
import time
from importlib.resources import files
from typing import Any, Final, Literal, NamedTuple

import msgspec
import numpy as np

from gatemark.core.canonical import digest, digest_bytes
from gatemark.core.errors import IntegrityError, UsageError
from gatemark.plugins.advisory.dry_run.envelope import DeviceChoice
from gatemark.plugins.advisory.dry_run.payload import FeatureRow
from gatemark.plugins.advisory.gateway.quiet_openvino import ov

FOLDER: Final = "reference_models"
CARDS: Final = "models.json"
ROW_INPUT: Final = "row"
LABEL_OUTPUT: Final = "label"
SEVERITY_OUTPUT: Final = "severity"
PRECISION: Final = {"INFERENCE_PRECISION_HINT": "f32"}
# One thread and one stream, so that sums are reproducible.
ON_CPU: Final = {**PRECISION, "INFERENCE_NUM_THREADS": "1", "PERFORMANCE_HINT": "LATENCY"}

FallbackReason = Literal["npu_absent", "npu_compile_failed", "cpu_requested"]


class ModelCard(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The classes of a lane's model, and the digests of its two files."""

    labels: tuple[str, ...]
    severities: tuple[str, ...]
    width: int
    xml: str
    bin: str

    @property
    def digest(self) -> str:
        """One digest for both files."""
        return digest({"xml": self.xml, "bin": self.bin})


class ModelCards(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All models, their training data, and the release they were saved with."""

    training: str
    openvino: str
    lanes: dict[str, ModelCard]


class Inference(NamedTuple):
    """The output of a model, and how long it took."""

    label: str
    confidence: float
    severity: str
    queue_ms: float
    infer_ms: float


def load_cards() -> ModelCards:
    """Return the cards of the built-in models."""
    return msgspec.json.decode(_read_file(CARDS), type=ModelCards)


def load_files(input_class: str, card: ModelCard) -> tuple[bytes, bytes]:
    """Return structure and weights of a lane's model; refuse files that are not the pinned ones."""
    pair = (_read_file(f"{input_class}.xml"), _read_file(f"{input_class}.bin"))
    for name, data, pin in zip(("xml", "bin"), pair, (card.xml, card.bin), strict=True):
        if digest_bytes(data) != pin:
            raise IntegrityError(f"model {input_class}.{name} is not the file that {CARDS} pins")
    return pair


def _read_file(name: str) -> bytes:
    return (files("gatemark.plugins.advisory.gateway") / FOLDER / name).read_bytes()


class PlacedModel(NamedTuple):
    """A compiled model, where it runs, and why not on the NPU if it does not."""

    compiled: Any
    device: str
    precision: str
    fallback: FallbackReason | None


def compile_model(
    core: ov.Core, model: ov.Model, choice: DeviceChoice, *, npu: str = "NPU"
) -> PlacedModel:
    """Compile for the NPU by name, else for the CPU by name; never by a list of both.

    OpenVINO's own automatic choice would silently run on the CPU. An NPU that does not accept the
    f32 hint runs with its own precision, which is then recorded.
    """
    reason: FallbackReason = "cpu_requested"
    if choice != "CPU":
        present = any(name.split(".")[0] == npu for name in core.available_devices)
        reason = "npu_compile_failed" if present else "npu_absent"
        for config in (PRECISION, {}) if present else ():
            try:
                return _make_placed(core.compile_model(model, npu, config), npu, None)
            except RuntimeError:
                continue
        if choice == "NPU":
            raise UsageError(
                f"device NPU was asked for, but {reason.replace('_', ' ')}; "
                f"OpenVINO sees {', '.join(core.available_devices)}"
            )
    return _make_placed(core.compile_model(model, "CPU", ON_CPU), "CPU", reason)


def _make_placed(compiled: Any, device: str, fallback: FallbackReason | None) -> PlacedModel:
    precision = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    return PlacedModel(compiled, device, str(precision), fallback)


class LaneModel:
    """One lane's model; several threads may call it, one at a time."""

    def __init__(
        self, input_class: str, card: ModelCard, core: ov.Core, choice: DeviceChoice
    ) -> None:
        xml, weights = load_files(input_class, card)
        placed = compile_model(core, core.read_model(model=xml, weights=weights), choice)
        self.card = card
        self.device, self.precision, self.fallback = placed[1:]
        self._request = placed.compiled.create_infer_request()
        self._turn = threading.Lock()

    def infer(self, row: FeatureRow) -> Inference:
        """Run the model on one row."""
        waiting_since = time.perf_counter()
        with self._turn:
            started = time.perf_counter()
            outputs = self._request.infer({ROW_INPUT: row.reshape(1, -1)})
            labels = np.array(outputs[LABEL_OUTPUT][0], dtype=np.float64)
            severities = np.array(outputs[SEVERITY_OUTPUT][0])
            ended = time.perf_counter()
        best = int(labels.argmax())
        return Inference(
            label=self.card.labels[best],
            confidence=min(1.0, float(labels[best])),
            severity=self.card.severities[int(severities.argmax())],
            queue_ms=(started - waiting_since) * 1000,
            infer_ms=(ended - started) * 1000,
        )
