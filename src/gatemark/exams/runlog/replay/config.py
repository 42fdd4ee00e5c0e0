"""What makes a variant: which parts are on, and how they are set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from gatemark.core.errors import BadInputError, InvalidValueError, UsageError
from gatemark.evidence.settings_file import parse_settings, read_settings
from gatemark.exams.runlog.records.names import tokengate_config_hash
from gatemark.exams.runlog.records.run import Compat, TriggerPolicy, Variant
from gatemark.exams.runlog.replay.token_gate import GateSettings

VARIANTS: Final[tuple[Variant, ...]] = ("V0", "V1", "V2", "V3", "V4")
Seconds = Annotated[float, Meta(gt=0)]


class Parts(Struct, frozen=True):
    """Which parts a variant has, and by which name its policy goes."""

    policy: TriggerPolicy
    gate: bool
    buffer: bool
    novelty: bool


PARTS: Final[Mapping[Variant, Parts]] = {
    "V0": Parts("full_exaid", gate=True, buffer=True, novelty=True),
    "V1": Parts("turn_end", gate=False, buffer=False, novelty=False),
    "V2": Parts("no_buffer", gate=True, buffer=False, novelty=False),
    "V3": Parts("no_tokengate", gate=False, buffer=True, novelty=True),
    "V4": Parts("no_novelty", gate=True, buffer=True, novelty=False),
}


class TokenGateConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """``components.token_gate``; times are seconds."""

    enabled: bool
    min_words: Annotated[int, Meta(ge=1)] = 60
    max_words: Annotated[int, Meta(ge=1)] = 100
    silence_timer: Seconds = 1
    max_wait_timeout: Seconds = 4

    def settings(self) -> GateSettings:
        """The same for the gate, in milliseconds."""
        return GateSettings(
            min_words=self.min_words,
            max_words=self.max_words,
            silence_ms=round(self.silence_timer * 1000),
            max_wait_ms=round(self.max_wait_timeout * 1000),
        )


class BufferAgentConfig(Struct, frozen=True):
    """``components.buffer_agent``."""

    enabled: bool
    novelty_check: bool = True


class SwitchConfig(Struct, frozen=True):
    """A part that is on or off."""

    enabled: bool = True


class ComponentsConfig(Struct, frozen=True):
    """``components``."""

    token_gate: TokenGateConfig
    buffer_agent: BufferAgentConfig
    summarizer: SwitchConfig = SwitchConfig()


class SummarizerConfig(Struct, frozen=True):
    """``summarizer``; how many summaries before the latest it sees."""

    history_k: Annotated[int, Meta(ge=1)]


class FixedTriggerConfig(Struct, frozen=True):
    """``fixed_trigger``; null is read from a calibration report."""

    chunk_size_ctu: Annotated[int, Meta(ge=1)] | None = None


class CalibrationConfig(Struct, frozen=True):
    """``v3_calibration``; where the report lies, seen from the configuration file."""

    report: str | None = None


class VariantConfig(Struct, frozen=True):
    """A variant's file. Keys that are not read here are other tools' business."""

    variant_id: Variant
    trigger_policy: TriggerPolicy
    components: ComponentsConfig
    summarizer: SummarizerConfig
    name: str = ""
    description: str = ""
    fixed_trigger: FixedTriggerConfig = FixedTriggerConfig()
    v3_calibration: CalibrationConfig = CalibrationConfig()
    compat: Compat = "gatemark"

    def __post_init__(self) -> None:
        parts = PARTS[self.variant_id]
        found = self.components
        switches = {
            "trigger_policy": (self.trigger_policy, parts.policy),
            "components.token_gate.enabled": (found.token_gate.enabled, parts.gate),
            "components.buffer_agent.enabled": (found.buffer_agent.enabled, parts.buffer),
            "components.summarizer.enabled": (found.summarizer.enabled, True),
        }
        if parts.buffer:
            novelty = found.buffer_agent.novelty_check
            switches["components.buffer_agent.novelty_check"] = (novelty, parts.novelty)
        for key, (value, expected) in switches.items():
            if value != expected:
                raise InvalidValueError(
                    f"{key} of {self.variant_id} must be {_word(expected)}, got {_word(value)}"
                )
        found.token_gate.settings()


class LoadedVariant(Struct, frozen=True):
    """A variant's configuration and the hash of its ``components.token_gate`` as written."""

    config: VariantConfig
    tokengate_config_hash: str

    @property
    def variant_id(self) -> Variant:
        """V0 to V4."""
        return self.config.variant_id


def load_variant(raw: object, place: str) -> LoadedVariant:
    """A variant from plain values; every complaint names the place and the key."""
    if not isinstance(raw, dict):
        raise BadInputError(f"{place}: expected a mapping of settings")
    known = raw.get("variant_id")
    if known is not None and known not in VARIANTS:
        raise BadInputError(f"{place}: unknown variant {known!r} (known: {', '.join(VARIANTS)})")
    try:
        config = msgspec.convert(raw, VariantConfig)
    except msgspec.ValidationError as error:
        raise BadInputError(f"{place}: {error}") from error
    return LoadedVariant(config, tokengate_config_hash(raw["components"]["token_gate"]))


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


_ENDS: Final = (".yaml", ".yml", ".json")


def load_variants(folder: str | None, wanted: Sequence[str] = ()) -> tuple[LoadedVariant, ...]:
    """The wanted variants in order; all there are when none is named."""
    unknown = [name for name in wanted if name not in VARIANTS]
    if unknown:
        raise UsageError(f"unknown variant {unknown[0]!r} (known: {', '.join(VARIANTS)})")
    found = [
        variant
        for name in VARIANTS
        if not wanted or name in wanted
        if (variant := _load(folder, name, must_exist=bool(wanted))) is not None
    ]
    if not found:
        raise BadInputError(f"{folder}: holds no variant configurations (such as V0.yaml)")
    return tuple(found)


def _load(folder: str | None, name: Variant, *, must_exist: bool) -> LoadedVariant | None:
    raw: object
    if folder is None:
        text = (
            files("gatemark.exams.runlog.replay")
            .joinpath("defaults", f"{name}.yaml")
            .read_text("utf-8")
        )
        return load_variant(parse_settings(text, f"{name}.yaml"), f"{name}.yaml")
    for end in _ENDS:
        path = Path(folder) / f"{name}{end}"
        if path.is_file():
            raw = read_settings(str(path))
            variant = load_variant(raw, str(path))
            if variant.variant_id != name:
                raise BadInputError(f"{path}: variant_id must be {name}, got {variant.variant_id}")
            return variant
    if must_exist:
        raise BadInputError(f"{folder}: has no configuration of {name} ({name}.yaml)")
    return None
