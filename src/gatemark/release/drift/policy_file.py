"""Read a drift policy from YAML: it extends the table of watched metrics or replaces it."""

from __future__ import annotations

from typing import Final

import msgspec
import yaml

from gatemark.core.errors import BadInputError, UsageError
from gatemark.evidence.settings_file import read_settings
from gatemark.release.drift.detectors.registry import detectors
from gatemark.release.drift.judging.policy import DriftPolicy, Response, Watch
from gatemark.release.drift.signal import Mode

HEAD: Final = "gatemark_drift"
DEFAULTS: Final = "defaults"


def choose_drift_policy(path: str | None, mode: Mode | None = None) -> DriftPolicy:
    """Return the policy of a file, or the built-in one; ``mode`` overrides its mode."""
    if path is not None:
        return read_drift_policy(path, mode)
    return DriftPolicy() if mode is None else DriftPolicy(mode=mode)


def read_drift_policy(path: str, mode: Mode | None = None) -> DriftPolicy:
    """Read the policy of a file; ``mode`` overrides its mode.

    Its watches replace the default watches of the same metric, and its responses those of the same
    stage and level. The other defaults stay, unless the file says ``defaults: false``.
    """
    value = read_settings(path)
    if not isinstance(value, dict) or value.pop(HEAD, None) != 1:
        raise BadInputError(f"{path}: must start with {HEAD}: 1")
    keeps_defaults = value.pop(DEFAULTS, True)
    if not isinstance(keeps_defaults, bool):
        raise BadInputError(f"{path}: {DEFAULTS} must be true or false, got {keeps_defaults!r}")
    try:
        policy = msgspec.convert(value if mode is None else {**value, "mode": mode}, DriftPolicy)
    except msgspec.ValidationError as error:
        raise BadInputError(f"{path}: {error}") from error
    _check_watches(path, policy)
    if keeps_defaults:
        policy = _merge_policy(policy, value)
    return policy


def format_policy(policy: DriftPolicy) -> str:
    """Return a policy as YAML with every default written out; it can be read back."""
    plain: dict[str, object] = {HEAD: 1, DEFAULTS: False, **msgspec.to_builtins(policy)}
    return str(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True))


def _check_watches(path: str, policy: DriftPolicy) -> None:
    for watch in policy.watches:
        try:
            detector = detectors().get(watch.detector)
            detector.build(watch.options)
        except (BadInputError, UsageError) as error:
            raise BadInputError(f"{path}: watch of {watch.metric}: {error}") from error
        if watch.harm == "down" and not detector.is_directed:
            raise BadInputError(
                f"{path}: watch of {watch.metric}: {watch.detector} has no direction, "
                "so harm: down would never raise an alarm; use harm: both"
            )


def _merge_policy(policy: DriftPolicy, value: dict[str, object]) -> DriftPolicy:
    watches: tuple[Watch, ...] = policy.watches
    if "watches" in value:
        named = {watch.metric for watch in policy.watches}
        watches += tuple(
            watch for watch in DriftPolicy(mode=policy.mode).watches if watch.metric not in named
        )
    responses: tuple[Response, ...] = policy.responses
    if "responses" in value:
        named_responses = {(response.stage, response.level) for response in policy.responses}
        responses += tuple(
            response
            for response in DriftPolicy().responses
            if (response.stage, response.level) not in named_responses
        )
    return msgspec.structs.replace(policy, watches=watches, responses=responses)
