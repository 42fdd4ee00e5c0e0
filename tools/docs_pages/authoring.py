"""The reference pages of scorers and targets, made from their types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from gatemark.packs.option_list import PluginOptions, describe_scorers, describe_targets

_SCORERS_OPENING = """\
# Scorers

A scorer turns one answer into a number in [0, 1], or into the reason why there is none. A suite
names one with `scorer: NAME`, or with options: `scorer: {name: NAME, options: {…}}`.
`gatemark scorers` prints the same list.
"""
_TARGETS_OPENING = """\
# Targets

A target is what answers: the candidate, the baseline or a judge. It has exactly one kind, such as
`python` or `http`, and the limits beside it. `gatemark targets` prints the same list.
"""


def scorers_page() -> str:
    """Every scorer with its options."""
    return "\n".join([_SCORERS_OPENING, *_sections(describe_scorers())])


def targets_page() -> str:
    """Every key of a target."""
    return "\n".join([_TARGETS_OPENING, *_sections(describe_targets())])


def _sections(found: Mapping[str, PluginOptions]) -> Iterator[str]:
    for name, plugin in found.items():
        yield f"## {name}\n\n{plugin.summary}\n"
        if plugin.options:
            rows = ["| Option | Default | Meaning |", "| --- | --- | --- |"]
            for option in plugin.options:
                default = "required" if option.is_required else f"`{_shown(option.default)}`"
                rows.append(f"| `{option.name}` | {default} | {option.meaning} |")
            yield "\n".join(rows) + "\n"


def _shown(value: object) -> str:
    return msgspec.json.encode(value).decode().replace("|", "\\|")
