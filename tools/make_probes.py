"""Makes the built-in probes: four classes, nine techniques each, every technique in four houses.

Canaries and secrets are drawn from a hash of the seed and the probe's id, so a new probe never
changes the text of an old one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.scorers.probe.criteria import Probe, ProbeClass, ProbeInput
from probe_texts import evidence_forgery, jailbreak, ontology_poisoning, prompt_injection
from probe_texts.scenarios import SCENARIOS
from probe_texts.setting import Draft, Setting, Technique

SEED: Final = 7
FILE_NAME: Final = "probes_v1.jsonl"
HOUSES_PER_TECHNIQUE: Final = 4
CLASSES: Final[Mapping[ProbeClass, Mapping[str, Technique]]] = {
    "prompt_injection": prompt_injection.TECHNIQUES,
    "evidence_forgery": evidence_forgery.TECHNIQUES,
    "jailbreak": jailbreak.TECHNIQUES,
    "ontology_poisoning": ontology_poisoning.TECHNIQUES,
}
_PURPOSES: Final = ("canary", "secret")
_FIRST: Final = (
    *("AMBER", "BRASS", "CEDAR", "COBALT", "COPPER", "CORAL", "CRIMSON", "DUSKY"),
    *("EBONY", "FROSTY", "GILDED", "HAZEL", "INDIGO", "IVORY", "JADE", "LILAC"),
    *("MAROON", "OCHRE", "PEARL", "RUSTY", "SCARLET", "SILVER", "TEAL", "VIOLET"),
)
_SECOND: Final = (
    *("ANVIL", "BADGER", "BUCKET", "CANDLE", "COMPASS", "DORMOUSE", "FIDDLE", "GOBLET"),
    *("HEDGEHOG", "KETTLE", "LANTERN", "MAGPIE", "MITTEN", "OTTER", "PADDLE", "PEBBLE"),
    *("PUFFIN", "SADDLE", "SPINDLE", "TEAPOT", "THIMBLE", "TROWEL", "WALNUT", "WHISTLE"),
)


def make_probes(seed: int = SEED) -> tuple[Probe, ...]:
    """Every built-in probe, in the order of the file."""
    probes = []
    for probe_class, techniques in CLASSES.items():
        for place, (technique, write_attack) in enumerate(techniques.items()):
            for turn in range(HOUSES_PER_TECHNIQUE):
                number = place * HOUSES_PER_TECHNIQUE + turn
                # Turned by the technique's place, so that no house always gets the same wording.
                variant = (place + turn) % HOUSES_PER_TECHNIQUE
                probes.append(_probe((probe_class, technique), write_attack, number, variant, seed))
    marks = [_mark(seed, purpose, probe.id) for probe in probes for purpose in _PURPOSES]
    if len(set(marks)) != len(marks):
        raise InvalidValueError(f"seed {seed} gives two probes the same mark; choose another")
    return tuple(probes)


def _probe(
    kind: tuple[ProbeClass, str], write_attack: Technique, number: int, variant: int, seed: int
) -> Probe:
    probe_class, technique = kind
    scenario = SCENARIOS[number % len(SCENARIOS)]
    name = f"{probe_class}.{technique}.{scenario.key}"
    draft = write_attack(
        Setting(
            scenario=scenario,
            fact_number=number // len(SCENARIOS) % 2,
            canary=_mark(seed, "canary", name),
            secret=_mark(seed, "secret", name).lower(),
            variant=variant,
        )
    )
    return Probe(
        id=name,
        probe_class=probe_class,
        technique=technique,
        severity=draft.severity,
        input=ProbeInput(system=draft.system, context=draft.context, user=draft.user),
        criterion=draft.criterion,
        tags=_tags(draft, scenario.key),
        example_success=draft.won,
        example_safe=draft.safe,
    )


def _tags(draft: Draft, scenario: str) -> dict[str, str]:
    return {"channel": draft.channel, "language": draft.language, "scenario": scenario}


def _mark(seed: int, purpose: str, name: str) -> str:
    """Two words and a number, the same for the same seed, purpose and probe."""
    draw = int.from_bytes(hashlib.sha256(f"{seed}/{purpose}/{name}".encode()).digest()[:8])
    draw, first = divmod(draw, len(_FIRST))
    draw, second = divmod(draw, len(_SECOND))
    return f"{_FIRST[first]}-{_SECOND[second]}-{100 + draw % 900}"


def probe_lines(seed: int = SEED) -> str:
    """The whole file: one probe a line, keys sorted."""
    records: list[dict[str, Any]] = [msgspec.to_builtins(probe) for probe in make_probes(seed)]
    lines = (json.dumps(record, sort_keys=True, ensure_ascii=False) for record in records)
    return "".join(f"{line}\n" for line in lines)


def write(folder: Path) -> None:
    """Write the probe file into a folder."""
    (folder / FILE_NAME).write_bytes(probe_lines().encode())


if __name__ == "__main__":
    write(Path(__file__).parent)
