"""The envelope that carries an input to a service, and reasons to refuse one.

The same envelope goes to Python functions, commands and HTTP services. It has an opaque request id
and the payload; neither the fixture's name nor its expected decision is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

from gatemark.core.errors import RefusedError
from gatemark.plugins.advisory.record import ALLOWED_ACTIONS, CLOSED_FLAGS, Mode

PROTOCOL: Final = "gatemark.advisory/1"
ADVISE_PATH: Final = "/v1/advise"
DeviceChoice = Literal["AUTO", "NPU", "CPU"]
MAX_DEPTH: Final = 32

FLAG_OF_ACTION: Final = {
    "route_atlas": "can_route_atlas",
    "write_memory": "can_write_memory",
    "execute_tool": "can_execute_tools",
    "restart_service": "can_restart_services",
    "send_message": "can_send_outbound",
    "scan_private_root": "can_scan_private_roots",
    "mutate_vector_store": "can_mutate_vector_store",
    "post_gateway_event": "can_post_advisory_event",
}
"""Forbidden actions, and the flag that each would need."""
WANTED_FLAGS: Final[dict[str, bool]] = msgspec.structs.asdict(CLOSED_FLAGS)
"""The required value of every authority flag."""
TOOL_KEYS: Final = frozenset(
    ("tool_calls", "tool_call", "tool_use", "function_call", "function_calls", "tool_choice")
)
"""The keys by which a reply calls tools."""
NOT_ADVICE: Final = frozenset({"advisory_only"})


class RequestEnvelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One request to a service."""

    protocol: Literal["gatemark.advisory/1"]
    operation: Literal["advise", "health"]
    request_id: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_-]{1,64}$")]
    input_class: Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9_]{0,63}$")]
    mode: Mode
    payload: Any = None
    authority: dict[str, bool] = {}
    actions: tuple[str, ...] = ()


class EnvelopeRefusedError(RefusedError):
    """Raised for a refused envelope; ``code`` is short and safe to record."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def find_requested_flags(value: object) -> frozenset[str]:
    """Return the authority flags that have a forbidden value in ``value``.

    Flags are looked for under their own names and the two that the record's schema uses. An unknown
    flag or action counts against ``advisory_only``, because it is not advice. Absent and null keys
    ask for nothing.
    """
    if not isinstance(value, dict):
        return frozenset()
    loose = {name: value[name] for name in WANTED_FLAGS if name in value}
    requested = [loose, *(value.get(name) for name in ("authority", "authority_flags"))]
    lists = [value.get(name) for name in ("actions", "allowed_actions")]
    found = [_find_wrong_flags(one) for one in requested] + [
        _find_action_flags(actions) for actions in lists
    ]
    return frozenset().union(*found)


def find_nested_flags(value: object) -> frozenset[str]:
    """Return the open flags anywhere inside a value, under their own names."""
    found: set[str] = set()
    level = [value]
    while level:
        inner = level.pop()
        if isinstance(inner, Mapping):
            if not TOOL_KEYS.isdisjoint(inner) and any(inner.get(key) for key in TOOL_KEYS):
                found.add("can_execute_tools")
            found |= {
                flag
                for flag, wanted in WANTED_FLAGS.items()
                if inner.get(flag) not in (None, wanted)
            }
            level.extend(inner.values())
        elif isinstance(inner, list | tuple):
            level.extend(inner)
    return frozenset(found)


def _find_wrong_flags(requested: object) -> frozenset[str]:
    if requested is None:
        return frozenset()
    if not isinstance(requested, dict):
        return NOT_ADVICE
    wrong = {
        flag for flag, asked in requested.items() if asked is not WANTED_FLAGS.get(flag, asked)
    }
    unknown = requested.keys() - WANTED_FLAGS.keys()
    return frozenset(wrong) | (NOT_ADVICE if unknown else frozenset())


def _find_action_flags(actions: object) -> frozenset[str]:
    if actions is None:
        return frozenset()
    if not isinstance(actions, list | tuple):
        return NOT_ADVICE
    names = [action if isinstance(action, str) else "" for action in actions]
    return frozenset(
        FLAG_OF_ACTION.get(name, "advisory_only") for name in names if name not in ALLOWED_ACTIONS
    )


def admit(value: object) -> RequestEnvelope:
    """Return the envelope, or raise the reason to refuse it."""
    if _is_deep(value):
        raise EnvelopeRefusedError("malformed", f"envelope is nested deeper than {MAX_DEPTH}")
    flags = find_requested_flags(value)
    if flags:
        raise EnvelopeRefusedError(
            "authority_requested",
            f"envelope asks for authority that no advisory service has: {', '.join(sorted(flags))}",
        )
    try:
        return msgspec.convert(value, RequestEnvelope)
    except msgspec.ValidationError as error:
        raise EnvelopeRefusedError("malformed", f"envelope is malformed: {error}") from error


def _is_deep(value: object) -> bool:
    """Whether containers are nested beyond the limit; checked without recursion."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True
