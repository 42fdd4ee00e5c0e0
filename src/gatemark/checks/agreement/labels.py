"""Your own label space: the file that declares it, and the record types that follow from it.

A label file is YAML::

    labels:
      supported: accept
      out_of_scope: refuse
      unsupported: reject
      skipped: abstain
    extra_keys: [model, run]
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from gatemark.checks.agreement.arbitrate import ROLES, Role
from gatemark.checks.agreement.records import SCHEMA, Judgement, JudgementPair, Opinion
from gatemark.checks.agreement.rules import REFUSAL_TOKEN, AgreementOptions
from gatemark.core.errors import BadInputError, GatemarkError
from gatemark.core.record import Form, RecordSchema
from gatemark.evidence.settings_file import about, parse_settings, problem_in, settings_text


class LabelSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of labels. Without ``labels``, those of the source are allowed."""

    labels: Annotated[dict[str, Role] | None, about("Role of each label.")] = None
    extra_keys: Annotated[tuple[str, ...], about("Further keys of records and opinions.")] = ()
    refusal_token: Annotated[str, about("The only text of a refusal.")] = REFUSAL_TOKEN


def read_label_spec(path: str) -> dict[str, object]:
    """Return the exam's options from a file of labels."""
    text = settings_text(path)
    found = parse_settings(text, path)
    try:
        if not isinstance(found, dict):
            raise BadInputError("expected a mapping with labels, extra_keys or refusal_token")
        _check_roles(found.get("labels"))
        spec = msgspec.convert(found, LabelSpec)
        for label in spec.labels or ():
            if label != label.strip():
                raise BadInputError(f"label {label!r} begins or ends with a blank; remove it")
        options: dict[str, object] = msgspec.to_builtins(spec)
        msgspec.convert(options, AgreementOptions)
    except msgspec.ValidationError as error:
        raise BadInputError(problem_in(str(error), LabelSpec).in_file(text, path)) from error
    except GatemarkError as error:
        raise BadInputError(f"{path}: {error}") from error
    return options


def _check_roles(labels: object) -> None:
    """Name the label whose role is none."""
    if not isinstance(labels, dict):
        return
    for label, role in labels.items():
        if role not in ROLES:
            raise BadInputError(
                f"label {label!r} needs one role ({', '.join(ROLES)}), got {role!r}; "
                "write each label with its role, as in 'supported: accept'"
            )


_EXTRA: Final = "extra_"


@cache
def build_schema(labels: tuple[str, ...], extra_keys: tuple[str, ...]) -> RecordSchema:
    """Return the schema of pairs with these labels, and with further keys."""
    label: Any = Literal[labels]
    opinion = _make_record_type(Opinion, label, extra_keys)
    pair = _make_record_type(
        JudgementPair, None, extra_keys, [("scholar", opinion), ("auditor", opinion)]
    )
    judgement = _make_record_type(Judgement, label, extra_keys)
    return msgspec.structs.replace(
        SCHEMA,
        forms=(_make_form("pair", pair), _make_form("judgement", judgement)),
    )


def _make_form(name: str, record_type: type[msgspec.Struct]) -> Form:
    return msgspec.structs.replace(SCHEMA.form(name), type=record_type, good=(), bad=())


def _make_record_type(
    base: type[msgspec.Struct],
    label: object,
    extra_keys: Sequence[str],
    fields: Sequence[tuple[str, object]] = (),
) -> type[msgspec.Struct]:
    """Return a record type with other labels and further keys; their values are not checked."""
    found: list[Any] = list(fields)
    if label is not None:
        votes = list[label] | UnsetType  # type: ignore[valid-type]
        found += [("label", label), ("votes", votes, UNSET)]
    names = {f"{_EXTRA}{place}": key for place, key in enumerate(extra_keys)}
    found += [(name, Any, UNSET) for name in names]
    return msgspec.defstruct(
        base.__name__,
        found,
        bases=(base,),
        kw_only=True,
        frozen=True,
        gc=False,
        forbid_unknown_fields=True,
        rename=names,
    )
