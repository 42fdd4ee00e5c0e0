"""The configuration of a variant: which parts are on, and their settings."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, Struct

from gatemark.core.errors import BadInputError, InvalidValueError, UsageError
from gatemark.evidence.settings_file import parse_settings, read_settings, settings_as
from gatemark.plugins.runlog.records.fields import VARIANT_PATTERN, VariantName, matches_pattern
from gatemark.plugins.runlog.records.names import hash_tokengate_config
from gatemark.plugins.runlog.records.run import PARTS, SOURCE_VARIANTS, Compat, TriggerPolicy
from gatemark.plugins.runlog.replay.token_gate import GateSettings

VARIANTS: Final = tuple(SOURCE_VARIANTS)
"""The built-in variants."""
Seconds = Annotated[float, Meta(gt=0)]


class TokenGateConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """``components.token_gate``; times are seconds."""

    enabled: bool
    min_words: Annotated[int, Meta(ge=1)] = 60
    max_words: Annotated[int, Meta(ge=1)] = 100
    silence_timer: Seconds = 1
    max_wait_timeout: Seconds = 4

    def settings(self) -> GateSettings:
        """Return the settings for the gate, in milliseconds."""
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
    """``summarizer``: how many summaries before the latest it sees."""

    history_k: Annotated[int, Meta(ge=1)]


class FixedTriggerConfig(Struct, frozen=True):
    """``fixed_trigger``; null means that it is read from a calibration report."""

    chunk_size_ctu: Annotated[int, Meta(ge=1)] | None = None


class CalibrationConfig(Struct, frozen=True):
    """``v3_calibration``: the path of the report, relative to the folder of configurations.

    The source calls it ``calibration_report``.
    """

    report: str | None = None
    calibration_report: str | None = None


class VariantConfig(Struct, frozen=True):
    """A variant's file. Unknown keys belong to other tools."""

    variant_id: VariantName
    trigger_policy: TriggerPolicy
    components: ComponentsConfig
    summarizer: SummarizerConfig
    name: str = ""
    description: str = ""
    fixed_trigger: FixedTriggerConfig = FixedTriggerConfig()
    v3_calibration: CalibrationConfig = CalibrationConfig()
    compat: Compat = "gatemark"

    def __post_init__(self) -> None:
        parts = PARTS[self.trigger_policy]
        found = self.components
        switches: dict[str, tuple[object, object]] = {
            "trigger_policy": (
                self.trigger_policy,
                SOURCE_VARIANTS.get(self.variant_id, self.trigger_policy),
            ),
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
                    f"{key} of {self.variant_id} must be {_render_value(expected)}, "
                    f"got {_render_value(value)}"
                )
        found.token_gate.settings()


class LoadedVariant(Struct, frozen=True):
    """A variant's configuration and the hash of its ``components.token_gate`` as written."""

    config: VariantConfig
    tokengate_config_hash: str

    @property
    def variant_id(self) -> str:
        """V0 to V4, or the name of a variant of your own."""
        return self.config.variant_id


def load_variant(raw: object, place: str) -> LoadedVariant:
    """Return a variant from plain values; every error names the place and the key."""
    if not isinstance(raw, dict):
        raise BadInputError(f"{place}: expected a mapping of settings")
    name = raw.get("variant_id")
    if isinstance(name, str) and not matches_pattern(VARIANT_PATTERN, name):
        raise BadInputError(
            f"{place}: variant_id must be a letter and then letters, digits or underscores, "
            f"got {name!r}"
        )
    config = settings_as(raw, VariantConfig, place)
    return LoadedVariant(config, hash_tokengate_config(raw["components"]["token_gate"]))


def _render_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


_ENDS: Final = (".yaml", ".yml", ".json")


def load_variants(folder: str | None, wanted: Sequence[str] = ()) -> tuple[LoadedVariant, ...]:
    """Return the wanted variants, or all of them: V0 to V4 first, then your own by name."""
    own = () if folder is None else _find_own_variants(Path(folder))
    known = (*VARIANTS, *own)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        hint = "" if folder else "; --configs names a folder with your own variants"
        raise UsageError(f"unknown variant {unknown[0]!r} (known: {', '.join(known)}){hint}")
    found = [
        variant
        for name in known
        if not wanted or name in wanted
        if (variant := _load_file(folder, name, must_exist=bool(wanted))) is not None
    ]
    if not found:
        raise BadInputError(f"{folder}: holds no variant configurations (such as V0.yaml)")
    return tuple(found)


def _find_own_variants(folder: Path) -> tuple[str, ...]:
    """Return the names of files that configure a variant other than V0 to V4."""
    found = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.suffix not in _ENDS or path.stem in VARIANTS or not path.is_file():
            continue
        raw = read_settings(str(path))
        if isinstance(raw, dict) and "variant_id" in raw:
            found.append(path.stem)
    return tuple(dict.fromkeys(found))


def _load_file(folder: str | None, name: str, *, must_exist: bool) -> LoadedVariant | None:
    raw: object
    if folder is None:
        text = (
            files("gatemark.plugins.runlog.replay")
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
