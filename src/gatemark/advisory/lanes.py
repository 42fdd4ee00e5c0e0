"""The six advisory lanes: what each is called, which service answers it, what it may say."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

CaseKind = Literal["normal", "low_confidence", "false_alarm", "action_needed", "malformed"]


class Lane(msgspec.Struct, frozen=True):
    """One kind of input and the service that advises on it. ``prefix`` starts its fixture ids."""

    input_class: str
    service: str
    prefix: str


LANES: Final = (
    Lane("context_gate", "openvino_context_gate", "context"),
    Lane("cron_n8n_event", "cron_n8n_advisory", "cron"),
    Lane("batch_doc_triage", "npu_batch_triage", "doc"),
    Lane("voice_audio", "npu_voice_audio_pipeline", "voice"),
    Lane("kanban_hygiene", "kanban_hygiene_advisory", "kanban"),
    Lane("advisory_gateway_envelope", "openvino_advisory_gateway", "envelope"),
)
BY_INPUT_CLASS: Final = {lane.input_class: lane for lane in LANES}
VOICE: Final = "voice_audio"
DOCUMENTS: Final = "batch_doc_triage"
ENVELOPES: Final = "advisory_gateway_envelope"


def service_name(input_class: str) -> str:
    """What the service of a lane is called in records; a lane of the user's own by its class."""
    lane = BY_INPUT_CLASS.get(input_class)
    return input_class if lane is None else lane.service
