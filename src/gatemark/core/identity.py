"""What may name a record: one line of text, so that it fits a table row and an error message."""

from __future__ import annotations

import re
from typing import Final

IDENTITY_PATTERN: Final = r"^[^\u0000-\u001f\u007f]*$"
_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")


def is_one_line(text: str) -> bool:
    """Whether a text is free of control characters."""
    return text.isprintable() or _CONTROL.search(text) is None
