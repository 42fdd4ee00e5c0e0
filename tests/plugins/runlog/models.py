"""Language models that say what a test wants."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from gatemark.plugins.runlog.replay.model import ModelQuestion, ModelReply

FIELDS = {
    "status_action": "Stable.",
    "key_findings": "Fever.",
    "differential_rationale": "Infection.",
    "uncertainty_confidence": "Unsure.",
    "recommendation_next_step": "Wait.",
    "agent_contributions": "a",
}
TRIGGER = {
    "rationale": "r",
    "stream_state": "SAME_TOPIC_CONTINUING",
    "is_complete": True,
    "is_relevant": True,
    "is_novel": True,
}


class Says:
    """Answers by a function of the question, and keeps the questions."""

    model_id = "says"

    def __init__(self, answer: Callable[[ModelQuestion], Any]) -> None:
        self._answer = answer
        self.asked: list[ModelQuestion] = []

    def ask(self, question: ModelQuestion) -> ModelReply:
        self.asked.append(question)
        answer = self._answer(question)
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return ModelReply(text=text, model_id="says-1", latency_ms=7, prompt_tokens=11)

    def identity(self) -> dict[str, Any]:
        return {"kind": "test"}

    def close(self) -> None:
        return None


def always(novelty: bool = True) -> Says:
    """Triggers on everything, and always gives the same summary."""

    def answer(question: ModelQuestion) -> Any:
        if question.task != "buffer":
            return FIELDS
        return {k: v for k, v in TRIGGER.items() if question.novelty or k != "is_novel"}

    return Says(answer)
