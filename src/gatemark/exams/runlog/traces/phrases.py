"""Invented talk of three kinds of teams, for traces that nobody had to record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct


class Domain(Struct, frozen=True):
    """A kind of team: who takes part, who calls on whom, and what they say.

    A sentence may hold ``{slots}``; each is filled with one of the slot's fillers. ``parallel``
    teams talk at the same time now and then.
    """

    name: str
    agents: tuple[str, ...]
    chair: str
    sentences: tuple[str, ...]
    slots: Mapping[str, tuple[str, ...]]
    parallel: bool = False


CLINICAL: Final = Domain(
    name="clinical",
    agents=("doctor0", "doctor1", "doctor2"),
    chair="supervisor",
    sentences=(
        "The patient presents with {sign} and {sign}, first noticed {time} ago.",
        "Examination shows {sign}, while {organ} function is normal.",
        "{test} reveals {value} {marker}, which is abnormal for this age.",
        "Because of the {sign} I consider {disease} the most likely cause.",
        "However, {disease} could also explain the {sign} and the {marker}.",
        "It remains uncertain whether the {sign} is related to the {drug}.",
        "I recommend {test} next, and to start {drug} if it is positive.",
        "There is a risk of {sign} with {drug}, so the dose should be reduced.",
        "I agree that {disease} is possible, but the family history is negative.",
        "Differential diagnosis: {disease}, {disease} or, less likely, {disease}.",
        "We should stop {drug}; the {sign} may be an adverse effect.",
        "Final decision: treat as {disease} and repeat {test} in {time}.",
    ),
    slots={
        "sign": (
            "fever",
            "seizure",
            "ataxia",
            "hypotonia",
            "dysarthria",
            "hepatomegaly",
            "nystagmus",
            "muscle weakness",
            "failure to thrive",
            "skin rash",
            "arrhythmia",
            "anemia",
            "hearing impairment",
            "splenomegaly",
            "peripheral neuropathy",
            "dystonia",
        ),
        "organ": ("renal", "hepatic", "cardiac", "pulmonary", "thyroid"),
        "test": (
            "magnetic resonance imaging",
            "a lumbar puncture",
            "exome sequencing",
            "an electroencephalogram",
            "a muscle biopsy",
            "echocardiography",
        ),
        "value": ("elevated", "markedly elevated", "reduced", "slightly reduced"),
        "marker": (
            "creatine kinase",
            "serum lactate",
            "alpha-fetoprotein",
            "ferritin",
            "plasma ammonia",
            "ceruloplasmin",
        ),
        "disease": (
            "Friedreich ataxia",
            "Wilson disease",
            "Leigh syndrome",
            "Gaucher disease",
            "myotonic dystrophy",
            "Fabry disease",
            "Niemann-Pick disease",
            "galactosemia",
        ),
        "drug": ("valproate", "penicillamine", "levetiracetam", "prednisone", "miglustat"),
        "time": ("two weeks", "three months", "a year", "four days"),
    },
)
INCIDENT: Final = Domain(
    name="incident",
    agents=("storage", "network", "database"),
    chair="commander",
    parallel=True,
    sentences=(
        "The {service} shows {value} latency since {time}, and {service} reports errors.",
        "I found {count} failed requests on {host}; the {part} is saturated.",
        "The spike is likely caused by the {change} that went out {time} ago.",
        "It is unclear whether {service} depends on {host} at all.",
        "I suggest to roll back the {change} first and restart {service} afterwards.",
        "Rollback of the {change} is a risk: the {part} may not come back cleanly.",
        "However, {host} was already slow before the {change}.",
        "Logs reveal that the {part} on {host} ran full {time} ago.",
        "I agree, we should stop deployments until {service} is stable.",
        "Confirmed: after the restart {service} is back to normal.",
        "Root cause pending; possibly the {part}, possibly the {change}.",
        "Next, schedule a patch for {host} and hold the {change}.",
    ),
    slots={
        "service": ("checkout", "search", "login", "billing", "the gateway", "the queue"),
        "host": ("node-3", "node-7", "the primary", "the replica", "edge-2"),
        "part": ("disk cache", "connection pool", "write-ahead log", "index", "message broker"),
        "change": ("schema change", "configuration push", "certificate renewal", "release"),
        "value": ("high", "increased", "unusually high"),
        "count": ("forty", "several hundred", "a dozen", "two thousand"),
        "time": ("ten minutes", "half an hour", "an hour", "noon"),
    },
)
WORKSHOP: Final = Domain(
    name="workshop",
    agents=("mechanic", "electrician", "planner"),
    chair="foreman",
    sentences=(
        "The {part} of unit {unit} shows {wear} after {time} of service.",
        "I measured {value} {quantity} at the {part}, above the limit.",
        "The {wear} is due to {cause}, as on unit {unit} last year.",
        "It could also be {cause}; the record is unclear.",
        "I propose to replace the {part} and to inspect the {part} as well.",
        "Caution: the {part} is under load, do not loosen it before the {step}.",
        "However, a new {part} cannot arrive before {time} from now.",
        "We should begin with the {step}, then continue with the {step}.",
        "I disagree, the {quantity} is within limits once the {part} is warm.",
        "Decision: unit {unit} stays in, and the {step} is scheduled.",
        "The {step} revealed no further {wear}.",
        "Confidence in {cause} as the cause is low until the {step} is done.",
    ),
    slots={
        "part": ("bearing", "gear box", "drive belt", "relay", "pump seal", "rotor"),
        "unit": ("four", "seven", "eleven", "twenty"),
        "wear": ("pitting", "hairline cracking", "corrosion", "overheating", "play"),
        "value": ("elevated", "excessive", "slightly increased"),
        "quantity": ("vibration", "temperature", "current", "oil pressure"),
        "cause": ("misalignment", "poor lubrication", "a loose mount", "voltage spikes"),
        "step": ("visual inspection", "oil change", "insulation test", "alignment"),
        "time": ("two thousand hours", "six weeks", "one season", "three days"),
    },
)
DOMAINS: Final[Mapping[str, Domain]] = {
    domain.name: domain for domain in (CLINICAL, INCIDENT, WORKSHOP)
}
