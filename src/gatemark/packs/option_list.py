"""List what a pack can name, with options; for ``gatemark`` lists and reference pages."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any, get_args

import msgspec
from msgspec import inspect as types

from gatemark.core.policy import Rule
from gatemark.core.registry import ENTRY_POINT_GROUP, is_installed
from gatemark.evidence.rows import Sampling
from gatemark.packs.answer_bounds import CostBounds, LatencyBounds
from gatemark.packs.judge_spec import JudgeSpec
from gatemark.packs.pack import Arms, Pack, PackAsset
from gatemark.packs.suite_spec import ScorerSpec, SuiteSpec
from gatemark.scorers.judge.grading import Grade
from gatemark.scorers.probe.criteria import (
    AnyOf,
    Passage,
    Probe,
    ProbeInput,
    SingleCriterion,
    Triple,
)
from gatemark.scorers.scorer import scorers
from gatemark.targets.spec import TargetSpec


class OptionInfo(msgspec.Struct, frozen=True):
    """One option: its name, its default and what it means."""

    name: str
    is_required: bool
    default: Any = None
    meaning: str = ""


class PluginOptions(msgspec.Struct, frozen=True):
    """A plugin or key: what it is, and the options it takes."""

    summary: str
    options: tuple[OptionInfo, ...]


def describe_scorers(name: str | None = None) -> dict[str, PluginOptions]:
    """Return every scorer, or the one of that name, with its options."""
    chosen = scorers() if name is None else [scorers().get(name)]
    return {
        scorer.name: PluginOptions(
            scorer.summary,
            tuple(one for one in list_options(scorer.options) if one.name not in scorer.places),
        )
        for scorer in chosen
    }


def describe_targets() -> dict[str, PluginOptions]:
    """Return the keys of a target, and those below each key that holds a mapping."""
    found = {"target": PluginOptions(_read_summary(TargetSpec), list_options(TargetSpec))}
    for field in _list_fields(TargetSpec):
        kind = field.type.type if isinstance(field.type, types.Metadata) else field.type
        inner = kind.types if isinstance(kind, types.UnionType) else (kind,)
        for part in inner:
            if isinstance(part, types.StructType):
                found[field.encode_name] = PluginOptions(
                    _read_summary(part.cls), list_options(part.cls)
                )
    return found


def describe_pack() -> dict[str, PluginOptions]:
    """Return the keys of a pack file, and those below each key that holds a mapping."""
    parts: dict[str, type] = {
        "pack": Pack,
        "asset": PackAsset,
        "suites": SuiteSpec,
        "scorer": ScorerSpec,
        "sample": Sampling,
        "latency": LatencyBounds,
        "cost": CostBounds,
        "targets": Arms,
        "judges": JudgeSpec,
        "rules": Rule,
    }
    return {
        name: PluginOptions(_read_summary(model), list_options(model))
        for name, model in parts.items()
    }


def describe_judges() -> dict[str, PluginOptions]:
    """Return what a pack says of a judge, and the options of the scorer that asks it."""
    scorer = scorers().get("judge")
    return {
        "judge": PluginOptions(_read_summary(JudgeSpec), list_options(JudgeSpec)),
        "scorer options": PluginOptions(scorer.summary, list_options(scorer.options)),
        "grade": PluginOptions(_read_summary(Grade), list_options(Grade)),
    }


def describe_probes() -> dict[str, PluginOptions]:
    """Return the fields of a probe, and every criterion that says when an attack has won."""
    found: dict[str, type] = {"probe": Probe, "input": ProbeInput, "context": Passage}
    for criterion in (*get_args(SingleCriterion), AnyOf):
        found[criterion.__struct_config__.tag] = criterion
    found["triples"] = Triple
    return {
        name: PluginOptions(_read_summary(model), list_options(model))
        for name, model in found.items()
    }


def list_plugins() -> dict[str, str]:
    """Return the entry points of plugins: what they add, and from which module."""
    points = sorted(filter(is_installed, entry_points(group=ENTRY_POINT_GROUP)))
    return {point.name: point.value for point in points}


def list_options(model: type) -> tuple[OptionInfo, ...]:
    """Return the options that a type takes."""
    return tuple(_describe_option(field) for field in _list_fields(model))


def _list_fields(model: type) -> tuple[types.Field, ...]:
    info = types.type_info(model)
    return info.fields if isinstance(info, types.StructType) else ()


def _describe_option(field: types.Field) -> OptionInfo:
    default = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    kind = field.type
    meaning = ""
    if isinstance(kind, types.Metadata):
        meaning = str((kind.extra_json_schema or {}).get("description", ""))
    return OptionInfo(
        name=field.encode_name,
        is_required=field.required,
        default=None if field.required else msgspec.to_builtins(default),
        meaning=meaning,
    )


def _read_summary(model: type) -> str:
    return (model.__doc__ or "").strip().partition("\n")[0]
