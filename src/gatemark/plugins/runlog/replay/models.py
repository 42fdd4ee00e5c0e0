"""The language model of a replay: rules, a recording, or a target such as an endpoint."""

from __future__ import annotations

import asyncio
import os
import random
import time
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

import msgspec

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError
from gatemark.evidence.blocks import read_blocks
from gatemark.evidence.reading_choices import Limits
from gatemark.evidence.settings_file import read_settings
from gatemark.evidence.shards import split_sources
from gatemark.evidence.source import inspect_source
from gatemark.plugins.runlog.replay.model import (
    LanguageModel,
    ModelError,
    ModelQuestion,
    ModelReply,
    RecordedModel,
    RecordedReply,
)
from gatemark.plugins.runlog.replay.rules_model import RulesModel
from gatemark.targets.build import make_target
from gatemark.targets.port import Call
from gatemark.targets.runner import run_calls
from gatemark.targets.spec import parse_spec

RULES_CHOICE: Final = "rules"
_RECORDING_ENDS: Final = (".jsonl", ".jsonl.gz", ".jsonl.zst")
_CONVERSATION: Final = [
    {"role": "system", "content": "{{input.system}}"},
    {"role": "user", "content": "{{input.prompt}}"},
]


class ModelChoice(msgspec.Struct, frozen=True):
    """A model by kind; ``path`` is its recording or its settings."""

    kind: Literal["rules", "recorded", "target"]
    path: str = ""


def parse_model_choice(text: str) -> ModelChoice:
    """Parse the word ``rules``, a recording (``.jsonl``), or target settings (YAML, JSON)."""
    if text == RULES_CHOICE:
        return ModelChoice("rules")
    if text.endswith(_RECORDING_ENDS):
        return ModelChoice("recorded", text)
    return ModelChoice("target", text)


def open_model(choice: ModelChoice) -> LanguageModel:
    """Open the model."""
    if choice.kind == "rules":
        return RulesModel()
    if choice.kind == "recorded":
        found = Path(choice.path)
        stamp = found.stat().st_mtime_ns if found.is_file() else 0
        return _read_recording(choice.path, stamp)
    return TargetModel(choice.path)


@lru_cache(maxsize=4)
def _read_recording(path: str, _written_at: int) -> RecordedModel:
    """Return a recording, read once per process while the file is unchanged."""
    source = inspect_source(path)
    (shard,) = split_sources((source,), parts=1, min_bytes=1)
    whole = bytearray()
    lines: list[RecordedReply] = []
    number = 0
    for block in read_blocks(shard, Limits()):
        whole += block.data
        for line in block.data.splitlines():
            number += 1
            if not line.strip():
                continue
            try:
                lines.append(msgspec.json.decode(line, type=RecordedReply))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise BadInputError(f"{path}:{number}: {error}") from error
    if not lines:
        raise BadInputError(f"{path}: holds no replies")
    return RecordedModel(lines, digest_bytes(bytes(whole)))


class TargetModel:
    """Asks a target, one question after the other, with the target's own retries and limits."""

    def __init__(self, path: str) -> None:
        raw = read_settings(path)
        if not isinstance(raw, dict):
            raise BadInputError(f"{path}: expected a mapping of settings")
        self._spec = parse_spec(_add_conversation(raw), path)
        self._target = make_target(
            self._spec, Path(path).parent, clock=time.monotonic, environ=os.environ
        )
        self._loop = asyncio.Runner()
        openai = self._spec.openai
        self.model_id = openai.model if openai is not None else self._spec.kind

    def ask(self, question: ModelQuestion) -> ModelReply:
        call = Call(
            id=question.input_hash,
            epoch=1,
            input={"task": question.task, "system": question.system, "prompt": question.prompt},
        )
        (outcome,) = self._loop.run(
            run_calls(
                self._target,
                [call],
                self._spec.options(),
                None,
                clock=time.monotonic,
                sleep=asyncio.sleep,
                rng=random.Random(0),  # noqa: S311 - spreads retries, guards nothing
            )
        )
        found = outcome.reply
        if found is None:
            error = outcome.error
            raise ModelError("no reply" if error is None else f"{error.kind}: {error.message}")
        usage = found.usage or {}
        return ModelReply(
            text=_get_text(found.output),
            model_id=found.model or self.model_id,
            latency_ms=None if found.latency_ms is None else round(found.latency_ms),
            prompt_tokens=_get_count(usage.get("prompt_tokens")),
            completion_tokens=_get_count(usage.get("completion_tokens")),
        )

    def identity(self) -> dict[str, object]:
        return {"kind": "target", **self._target.identity()}

    def close(self) -> None:
        self._loop.run(self._target.close())
        self._loop.close()


def _add_conversation(raw: dict[str, object]) -> dict[str, object]:
    """Return endpoint settings that send both prompts, each in its role, by default."""
    openai = raw.get("openai")
    if not isinstance(openai, dict) or {"prompt", "system", "messages"} & set(openai):
        return raw
    return {**raw, "openai": {**openai, "messages": _CONVERSATION}}


def _get_text(output: object) -> str:
    return output if isinstance(output, str) else msgspec.json.encode(output).decode()


def _get_count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
