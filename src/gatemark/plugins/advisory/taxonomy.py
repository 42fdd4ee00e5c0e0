"""The meanings of labels: no operation, action, or deferred to a person."""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from gatemark.core.errors import InvalidValueError

LabelKind = Literal["no_op", "action", "deferred"]
LABEL_KINDS: Final[tuple[LabelKind, ...]] = get_args(LabelKind)


class Taxonomy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The meanings of a lane's labels. A label in none of the three kinds is refused.

    ``aliases`` maps a label to the one it is compared as.
    """

    no_op: tuple[str, ...] = ("suppress", "no_action", "log", "skip_private_root")
    action: tuple[str, ...] = ("escalate", "retrieve_more_context", "summarize")
    deferred: tuple[str, ...] = ("needs_human", "unknown")
    aliases: dict[str, str] = {}

    def __post_init__(self) -> None:
        known = self.labels
        twice = sorted({label for label in known if known.count(label) > 1})
        if twice:
            raise InvalidValueError(f"label {twice[0]!r} has more than one meaning")
        if not (self.no_op and self.action and self.deferred):
            raise InvalidValueError("a taxonomy needs no_op, action and deferred labels")
        for alias, label in self.aliases.items():
            if label not in known:
                raise InvalidValueError(
                    f"alias {alias!r} stands for {label!r}, which has no meaning"
                )
            if alias in known:
                raise InvalidValueError(f"label {alias!r} has a meaning and is an alias too")

    @property
    def labels(self) -> tuple[str, ...]:
        """Every label with its own meaning."""
        return (*self.no_op, *self.action, *self.deferred)

    def knows(self, label: str) -> bool:
        """Whether a label may be used in the lane."""
        return label in self.aliases or label in self.labels

    def normal(self, label: str) -> str:
        """Return the label that this one is compared as."""
        return self.aliases.get(label, label)

    def kind(self, label: str) -> LabelKind:
        """Return the meaning of a label."""
        normal = self.normal(label)
        for kind in LABEL_KINDS:
            if normal in getattr(self, kind):
                return kind
        raise InvalidValueError(f"a label must be one of {', '.join(self.labels)}")


DEFAULT_TAXONOMY: Final = Taxonomy()
