"""The reference service behind the gateway: recommends for an accepted envelope."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from gatemark.core.errors import BadInputError
from gatemark.plugins.advisory.dry_run.envelope import (
    PROTOCOL,
    WANTED_FLAGS,
    DeviceChoice,
    EnvelopeRefusedError,
    RequestEnvelope,
)
from gatemark.plugins.advisory.dry_run.payload import PayloadRuling, compute_row, settle_by_rule
from gatemark.plugins.advisory.dry_run.question import DEFAULT_COUNTER, measure_busy, read_counter
from gatemark.plugins.advisory.gateway.models import LaneModel, load_cards
from gatemark.plugins.advisory.gateway.quiet_openvino import ov
from gatemark.plugins.advisory.record import ALLOWED_ACTIONS

MAX_EVIDENCE_REFS: Final = 8
LOW_CONFIDENCE: Final = 0.6


class Advisor:
    """The models of all lanes, compiled once. It can only advise."""

    def __init__(self, choice: DeviceChoice, *, counter: Path = Path(DEFAULT_COUNTER)) -> None:
        core = ov.Core()
        cards = load_cards()
        self._lanes = {
            name: LaneModel(name, card, core, choice) for name, card in cards.lanes.items()
        }
        self._counter = counter

    def health(self) -> dict[str, object]:
        """Return which lanes are ready, where they run and by which model."""
        return {
            "protocol": PROTOCOL,
            "status": "ok",
            "lanes": {
                name: {
                    "device": lane.device,
                    "precision": lane.precision,
                    "model_digest": lane.card.digest,
                    "fallback": self._describe_fallback(lane),
                }
                for name, lane in self._lanes.items()
            },
        }

    def advise(self, envelope: RequestEnvelope) -> dict[str, object]:
        """Return a recommendation for one input; refuse unknown lanes and unreadable inputs.

        The reply contains nothing of the payload but the names of its fields.
        """
        started = time.perf_counter()
        lane = self._lanes.get(envelope.input_class)
        if lane is None:
            raise EnvelopeRefusedError(
                "unknown_lane", f"no lane is called {envelope.input_class!r} here"
            )
        if envelope.operation == "health":
            said = {"protocol": PROTOCOL, "status": "ok", **self._describe_machine(lane)}
        else:
            ruling = settle_by_rule(envelope.input_class, envelope.payload)
            said = (
                self._answer_by_rule(lane, ruling)
                if ruling
                else self._answer_by_model(lane, envelope)
            )
            said["evidence_refs"] = _name_evidence(envelope.payload)
            said |= {"authority": WANTED_FLAGS, "actions": sorted(ALLOWED_ACTIONS)}
        return {**said, "service_ms": (time.perf_counter() - started) * 1000}

    def _answer_by_rule(self, lane: LaneModel, ruling: PayloadRuling) -> dict[str, object]:
        fallback = None
        if ruling.fallback is not None:
            fallback = {"kind": ruling.fallback, "reason": ruling.reason}
        return {
            **self._describe_machine(lane),
            "label": ruling.label,
            "severity": ruling.severity,
            "confidence": 1.0,
            "reasons": [ruling.reason, "settled_by_rule"],
            "inference_ran": False,
            "fallback": fallback,
        }

    def _answer_by_model(self, lane: LaneModel, envelope: RequestEnvelope) -> dict[str, object]:
        try:
            row = compute_row(envelope.input_class, envelope.payload)
        except BadInputError as error:
            raise EnvelopeRefusedError("unreadable_payload", str(error)) from error
        on_npu = lane.device != "CPU"
        before = read_counter(self._counter) if on_npu else None
        inferred = lane.infer(row)
        delta = None
        if before is not None:
            delta = measure_busy(before, read_counter(self._counter)).value_us
        certainty = "low_confidence" if inferred.confidence < LOW_CONFIDENCE else "model_confident"
        return {
            **self._describe_machine(lane),
            "label": inferred.label,
            "severity": inferred.severity,
            "confidence": inferred.confidence,
            "reasons": [f"model_says_{inferred.label}", certainty],
            "inference_ran": True,
            "queue_ms": inferred.queue_ms,
            "npu_busy_delta_us": delta,
            "fallback": self._describe_fallback(lane),
        }

    def _describe_machine(self, lane: LaneModel) -> dict[str, object]:
        return {
            "device": lane.device,
            "precision": lane.precision,
            "model": "gatemark-reference-softmax",
            "model_digest": lane.card.digest,
        }

    def _describe_fallback(self, lane: LaneModel) -> dict[str, str] | None:
        return None if lane.fallback is None else {"kind": "cpu", "reason": lane.fallback}


def _name_evidence(payload: object) -> list[str]:
    """Return the names of the fields that were used; only names that are plain words."""
    if not isinstance(payload, dict):
        return []
    names = [name for name in sorted(payload) if name.isidentifier() and len(name) <= 40]
    return [f"payload:{name}" for name in names[:MAX_EVIDENCE_REFS]]
