"""Register versions with their content, schema or calibrator, and set the required pack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta

from gatemark.core.canonical import canonical_bytes, digest, digest_bytes
from gatemark.core.errors import BadInputError, InvalidValueError, RefusedError, UsageError
from gatemark.core.result import AssetKind, AssetRef
from gatemark.evidence.small_file import read_small_file
from gatemark.evidence.strict_json import parse_strictly
from gatemark.release.lifecycle.act import CommandResult, act
from gatemark.release.lifecycle.commands import (
    AddVersion,
    AssetField,
    NoteField,
    SetRequiredPack,
    VersionField,
)
from gatemark.release.lifecycle.decisions.schema_change import bump, compare_schemas
from gatemark.release.lifecycle.model.nouns import (
    PRODUCTION,
    Digest,
    Pin,
    Pins,
    ResultReference,
    Risk,
    SchemaChange,
    VersionName,
    VersionRef,
)
from gatemark.release.lifecycle.model.state import LifecycleState
from gatemark.release.lifecycle.pack_identity import identify_pack_file
from gatemark.release.lifecycle.state_cache import asset_state_cache, read_state
from gatemark.workspace import Workspace

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
MAX_SCHEMA_BYTES: Final = 1024 * 1024
CALIBRATOR: Final = "calibrator"
_PIN_NAMES: Final = tuple(name for name in Pins.__struct_fields__ if name != "tools")


class NewVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version by its digest, by a result about it, or by its files."""

    asset: AssetField
    version: VersionField
    kind: (
        Annotated[AssetKind, Meta(description="Kind of the asset; required for a new one.")] | None
    ) = None
    risk: Annotated[Risk, Meta(description="Risk; high risk needs more approvals.")] | None = None
    digest: (
        Annotated[Digest, Meta(description="Digest of its content.", extra={"metavar": "DIGEST"})]
        | None
    ) = None
    result: (
        Annotated[
            ResultReference,
            Meta(
                description="Sealed result whose candidate it is.",
                extra={"flags": ("--from", "--from-result", "result"), "metavar": "RESULT"},
            ),
        ]
        | None
    ) = None
    files: Annotated[
        tuple[str, ...],
        Meta(
            description="File of its content, stored with it.",
            extra={"flags": ("--file", "files"), "is_local": True},
        ),
    ] = ()
    parent: (
        Annotated[
            VersionName,
            Meta(
                description="Version it was made from (default: the live one).",
                extra={"metavar": "VERSION"},
            ),
        ]
        | None
    ) = None
    pins: Annotated[
        tuple[Pin, ...],
        Meta(
            max_length=64,
            description="Pin: model, prompt, retrieval, ontology, policy, routing or tool.NAME.",
            extra={"flags": ("--pin", "pins"), "metavar": "NAME=VALUE"},
        ),
    ] = ()
    schema: (
        Annotated[
            str,
            Meta(
                description="File of its JSON Schema, compared with that of its parent.",
                extra={"metavar": "FILE", "is_local": True},
            ),
        ]
        | None
    ) = None
    is_scope_change: Annotated[
        bool,
        Meta(
            description="Mark a wider scope, which security must approve.",
            extra={"flags": ("--scope-change",)},
        ),
    ] = False
    note: NoteField = ""


def add_version(workspace: Workspace, new: NewVersion, *, actor: str) -> CommandResult:
    """Register a draft version; defaults come from the asset."""
    state = read_state(workspace, new.asset)
    parent = new.parent or _choose_parent(state, new.version)
    kind = new.kind or state.asset.kind
    if kind is None:
        raise UsageError(f"{new.asset} is new: give its --kind")
    command = AddVersion(
        actor=actor,
        asset=new.asset,
        kind=kind,
        version=new.version,
        digest=_digest_content(workspace, new),
        risk=new.risk or state.asset.risk,
        parent=parent,
        pins=read_pins(new.pins),
        schema=None if new.schema is None else _compare_schemas(workspace, state, new, parent),
        is_scope_change=new.is_scope_change,
        note=new.note,
    )
    return act(workspace, command)


def draft_calibrated(
    workspace: Workspace, ref: VersionRef, calibrator: bytes, *, actor: str, note: str
) -> str:
    """Add a draft with the parent's content and pins, and these bytes as its calibrator."""
    asset = read_state(workspace, ref.asset).asset
    parent_name = asset.place(PRODUCTION).enabled or next(reversed(asset.versions), None)
    if asset.kind is None or parent_name is None:
        raise RefusedError(f"{ref.asset} is not registered; add its first version before a refit")
    parent = asset.versions[parent_name]
    workspace.blobs.put(calibrator)
    pinned = digest_bytes(calibrator)
    pins = msgspec.structs.replace(parent.pins, tools={**parent.pins.tools, CALIBRATOR: pinned})
    command = AddVersion(
        actor=actor,
        asset=ref.asset,
        kind=asset.kind,
        version=ref.version,
        # The same content as the parent, with recalibrated confidences.
        digest=digest({"parent": parent.digest, CALIBRATOR: pinned}),
        risk=asset.risk,
        parent=parent_name,
        pins=pins,
        note=note,
    )
    act(workspace, command)
    return str(ref)


def _choose_parent(state: LifecycleState, version: str) -> str | None:
    """Return the enabled version, or the newest one if none is enabled."""
    others = [name for name in state.asset.versions if name != version]
    known = state.asset.versions.get(version)
    if known is not None:
        return known.parent
    return state.asset.place(PRODUCTION).enabled or (others[-1] if others else None)


def _digest_content(workspace: Workspace, new: NewVersion) -> str:
    given = [new.digest is not None, new.result is not None, bool(new.files)]
    if sum(given) != 1:
        raise UsageError("name the content of the version: --digest, --from RESULT or --file")
    if new.digest is not None:
        return new.digest
    if new.result is not None:
        candidate = workspace.citable_result(new.result).candidate
        if candidate is None:
            raise UsageError(f"result {new.result} names no candidate")
        return candidate.digest
    kept = {
        Path(name).name: workspace.blobs.put(read_small_file(name, MAX_FILE_BYTES))
        for name in new.files
    }
    if len(kept) != len(new.files):
        raise UsageError("two of the files have the same name")
    return next(iter(kept.values())) if len(kept) == 1 else digest(kept)


def read_pins(texts: Sequence[str]) -> Pins:
    """Parse pins from ``name=value`` texts; ``tool.NAME=value`` pins a tool."""
    plain: dict[str, str] = {}
    tools: dict[str, str] = {}
    for text in texts:
        name, mark, value = text.partition("=")
        place = plain
        if name.startswith("tool."):
            place, name = tools, name.removeprefix("tool.")
        elif name not in _PIN_NAMES:
            known = ", ".join((*_PIN_NAMES, "tool.NAME"))
            raise UsageError(f"unknown pin {name!r} (known: {known})")
        if not mark or not value or name in place:
            raise UsageError(f"{text!r} must be NAME=VALUE, each name once")
        place[name] = value
    try:
        return msgspec.convert({**plain, "tools": tools}, Pins)
    except msgspec.ValidationError as error:
        raise UsageError(f"pins: {error}") from error


def _compare_schemas(
    workspace: Workspace, state: LifecycleState, new: NewVersion, parent: str | None
) -> SchemaChange:
    after = _read_schema(str(new.schema))
    name = workspace.blobs.put(canonical_bytes(after))
    before = None if parent is None else state.asset.versions.get(parent)
    step = None if parent is None else bump(parent, new.version)
    if before is None or before.schema is None:
        return SchemaChange(digest=name, change=None, bump=step)
    stored = msgspec.json.decode(workspace.blobs.get(before.schema.digest))
    try:
        found = compare_schemas(stored, after)
    except InvalidValueError as error:
        raise BadInputError(f"{new.schema}: {error}") from error
    return SchemaChange(
        digest=name,
        change=found.change,
        bump=step,
        reasons=found.reasons,
        is_marking_change=found.is_marking_change,
    )


def _read_schema(name: str) -> Mapping[str, object]:
    value, problems = parse_strictly(read_small_file(name, MAX_SCHEMA_BYTES), max_depth=64)
    if problems:
        raise BadInputError(
            tuple(f"{name}: {problem.path}: {problem.message}" for problem in problems)
        )
    if not isinstance(value, dict):
        raise BadInputError(f"{name}: expected a JSON object")
    return value


class RequirePack(msgspec.Struct, frozen=True, kw_only=True):
    """Set the required pack of an asset: the one that results must come from.

    Schedules run the file as well.
    """

    asset: AssetField
    pack: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=4096,
            description="Pack file; on a server, the name of one of its packs.",
            extra={"metavar": "PACK"},
        ),
    ]
    note: NoteField = ""
    is_in_person: ClassVar[bool] = True


def require_pack(workspace: Workspace, request: RequirePack, *, actor: str) -> CommandResult:
    """Set the required pack of an asset."""
    command = SetRequiredPack(
        actor=actor,
        asset=request.asset,
        required_pack=identify_pack_file(request.pack),
        file=request.pack,
        note=request.note,
    )
    return act(workspace, command)


def version_ref(workspace: Workspace, ref: VersionRef) -> AssetRef:
    """Return the reference by which results name a registered version."""
    state = read_state(workspace, ref.asset)
    version = state.asset.versions.get(ref.version)
    if version is None:
        known = ", ".join(state.asset.versions) or "none"
        raise UsageError(f"{ref.asset} has no version {ref.version} (known: {known})")
    return AssetRef(id=f"{ref.asset}/{ref.version}", digest=version.digest)


def asset_names(workspace: Workspace) -> tuple[str, ...]:
    """Return the names of all registered assets."""
    workspace.existing_store()
    return tuple(sorted(asset_state_cache(workspace).names()))
