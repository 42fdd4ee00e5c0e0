"""Advisory scoring with pydantic v2: strict models, the same rules and counts by attributes.

``python -m bench.advisory_pydantic FILE [bare]`` prints its counts as JSON. It also names the file
by its digest, finds repeated ids, and looks through free texts for plain marks, as a score
must; ``bare`` leaves these three out. Repeated keys it cannot see.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, create_model, model_validator

from bench.advisory_plain import DEFERRED, NO_OP, RANK, UNMEASURED, UNSURE, Score
from gatemark.plugins.advisory import record as noun
from gatemark.plugins.advisory.confidence_buckets import choose_bucket
from gatemark.plugins.advisory.record import ERROR_CATEGORIES

FLAGS = noun.CLOSED_FLAGS.__struct_fields__
FOLDERS = ("home", "root", "Users", "private", "mnt", "media")
PRIVATE = ("@", *(f"/{name}/" for name in FOLDERS), "~/", "{")
SECRET = ("password", "secret", "PRIVATE KEY", "AKIA", "ghp_", "eyJ", "xox")
PHONE = re.compile(r"\d(?:[ ().-]{0,2}\d){8}")
_ATOMS: dict[Any, Any] = {
    noun.DecisionId: Annotated[str, StringConstraints(pattern=noun.ID_PATTERN)],
    noun.Moment: Annotated[str, StringConstraints(pattern=noun.TIME_PATTERN)],
    noun.ContentHash: Annotated[str, StringConstraints(pattern=noun.HASH_PATTERN)],
    noun.Name: Annotated[str, StringConstraints(pattern=noun.NAME_PATTERN)],
    noun.Label: Annotated[str, StringConstraints(pattern=noun.LABEL_PATTERN)],
    noun.Share: Annotated[float, Field(ge=0, le=1)],
    noun.Milliseconds: Annotated[float, Field(ge=0)],
    noun.Microseconds: Annotated[int, Field(ge=0)],
}


class Strict(BaseModel):
    """Nothing is converted and nothing unknown is let in."""

    model_config = ConfigDict(strict=True, extra="forbid")


class Sound(Strict):
    """A record whose rules across fields hold."""

    @model_validator(mode="after")
    def is_sound(self) -> Any:
        record: Any = self
        proof, reference, fallback = (
            record.npu_proof,
            record.human_or_atlas_decision,
            record.fallback,
        )
        if proof.proof_mode in UNMEASURED:
            proof_fits = proof.proof_ok is None
        else:
            proof_fits = not proof.proof_ok or bool(proof.inference_ran and proof.busy_delta_us)
        outcome = record.outcome
        if not (
            proof_fits
            and record.confidence.bucket == choose_bucket(record.confidence.score)
            and (reference.source == "missing") == (reference.label is None)
            and (outcome.error_type not in ERROR_CATEGORIES or outcome.comparison == "disagree")
            and fallback.occurred == (fallback.kind is not None)
        ):
            raise ValueError("a bad record")
        return self


def model_of(struct: Any, base: type[BaseModel] = Strict) -> Any:
    """The model of a struct, field by field."""
    fields: dict[str, Any] = {
        field.name: (_translated(field.type), ... if field.required else None)
        for field in msgspec.structs.fields(struct)
    }
    return create_model(struct.__name__, __base__=base, **fields)


def _translated(wanted: Any) -> Any:
    if wanted in _ATOMS:
        return _ATOMS[wanted]
    if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        return model_of(wanted)
    if get_origin(wanted) is tuple:
        return list[_translated(get_args(wanted)[0])]  # type: ignore[misc]
    if get_origin(wanted) is not Literal and get_args(wanted):
        parts = [_translated(part) for part in get_args(wanted) if part is not msgspec.UnsetType]
        return Union[tuple(parts)]  # noqa: UP007 - made from parts
    return wanted


class AttributeScore(Score):
    """The same counts from models."""

    def add(self, record: Any) -> None:
        """Count one record."""
        bucket, fallback = record.confidence.bucket, record.fallback
        lane = (record.input_class, record.service.name)
        flags, privacy, proof = record.authority_flags, record.privacy, record.npu_proof.proof_ok
        names = ["records", _category(record), record.recommendation.label, bucket]
        if any(getattr(flags, name) is not name.startswith(("adv", "req")) for name in FLAGS):
            names.append("authority")
        if record.actual_action.performed:
            names.append("side_effect")
        if privacy.payload_logged or privacy.contains_private_payload:
            names.append("privacy")
        if fallback.occurred:
            names += [fallback.kind, "expected" if fallback.expected else "unexpected"]
        names.append("proof_ok" if proof else "proof_unknown" if proof is None else "proof_missing")
        if record.latency.timeout:
            names.append("timeout")
        for group in ("all", lane, bucket):
            self.counts[group].update(names)
        if record.latency.total_ms is not None:
            self.times[lane].append(record.latency.total_ms)


def _category(record: Any) -> str:
    advice, reference = record.recommendation, record.human_or_atlas_decision
    if record.source.kind == "service_health_probe":
        return "not_applicable"
    if reference.source in ("missing", "atlas_shadow"):
        return "missing_reference"
    label, wanted = advice.label, reference.label
    if record.confidence.bucket in UNSURE or label in DEFERRED:
        return "uncertain"
    if label != wanted:
        if wanted in DEFERRED or (label in NO_OP) == (wanted in NO_OP):
            return "disagree"
        return "false_negative" if label in NO_OP else "false_positive"
    apart = RANK[advice.severity] - RANK[reference.severity]
    if abs(apart) <= 1:
        return "agree"
    return "severity_overcall" if apart > 0 else "severity_undercall"


def texts_of(record: Any) -> Iterator[str | None]:
    """Every free text of a record."""
    source, service, advice = record.source, record.service, record.recommendation
    yield from (source.fixture_id, source.fixture_set, source.artifact_ref)
    yield from (service.endpoint, service.model, advice.raw_output_ref)
    yield from (record.human_or_atlas_decision.decision_ref, record.npu_proof.counter_path)
    yield record.fallback.reason
    yield from advice.reasons
    yield from advice.evidence_refs or ()
    yield from record.actual_action.side_effects
    yield from record.notes or ()


def main(path: str, *, bare: bool) -> None:
    """Score a file."""
    score = AttributeScore()
    validate = model_of(noun.AdvisoryDecision, Sound).model_validate_json
    seen: set[str] = set()
    digest = hashlib.sha256()
    private = 0
    with open(path, "rb") as stream:  # noqa: PTH123
        for line in stream:
            record = validate(line)
            score.add(record)
            if bare:
                continue
            digest.update(line)
            if record.decision_id in seen:
                raise SystemExit("a repeated id")
            seen.add(record.decision_id)
            texts = "\n".join(filter(None, texts_of(record)))
            if any(mark in texts for mark in (*PRIVATE, *SECRET)) or PHONE.search(texts):
                private += 1
    score.print()


if __name__ == "__main__":
    main(sys.argv[1], bare=sys.argv[2:] == ["bare"])
