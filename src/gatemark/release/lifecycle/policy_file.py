"""Read a release policy from YAML; missing fields have their default values."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import yaml

from gatemark.core.errors import BadInputError
from gatemark.evidence.settings_file import read_settings
from gatemark.release.lifecycle.default_policy import default_document
from gatemark.release.lifecycle.events.fact import WORKSPACE_SUBJECT
from gatemark.release.lifecycle.model.release_policy import (
    ReleasePolicy,
    merge_documents,
    policy_from,
)
from gatemark.release.lifecycle.state_cache import read_state
from gatemark.workspace import Workspace

MAX_POLICY_BYTES: Final = 1024 * 1024


def read_release_policy(path: str) -> ReleasePolicy:
    """Read the policy in a file; missing fields are those of the default policy."""
    return release_policy_from(read_settings(path, MAX_POLICY_BYTES), path)


def release_policy_from(value: object, place: str) -> ReleasePolicy:
    """Return the policy in a decoded document; ``place`` names its source in messages."""
    if not isinstance(value, dict) or value.get("gatemark_release") != 1:
        raise BadInputError(f"{place}: must start with gatemark_release: 1")
    try:
        return policy_from(merge_documents(default_document(), value))
    except msgspec.ValidationError as error:
        raise BadInputError(f"{place}: {error}") from error


class PolicyInForce(msgspec.Struct, frozen=True):
    """The release policy of a store; ``revision`` is the last event about roles or policy."""

    policy: dict[str, Any]
    policy_digest: str
    revision: int


def policy_in_force(workspace: Workspace) -> PolicyInForce:
    """Return the current policy, with all defaults written out."""
    workspace.existing_store()
    rules = read_state(workspace, WORKSPACE_SUBJECT).governance
    plain: dict[str, object] = msgspec.to_builtins(rules.policy)
    return PolicyInForce(plain, rules.policy_digest, rules.revision)


def policy_text(policy: ReleasePolicy) -> str:
    """Return a policy as YAML, with all defaults written out."""
    return str(yaml.safe_dump(msgspec.to_builtins(policy), sort_keys=False, allow_unicode=True))
