"""``docs/llms.txt``: the documentation for language models, one line for each page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_NAMED: Final = re.compile(r"^## (.+)$", re.MULTILINE)
_LINK: Final = re.compile(r"\[([^\]]+)\]\(([\w/.-]+\.md)\)([^\n\[]*)")
SUMMARY: Final = """\
# Gatemark

> The promotion gate for AI changes. It compares a candidate with a baseline on the same items and
> answers pass (exit 0), fail (1) or inconclusive (3). Results are sealed in a ledger; promotions
> cite them and need a second person.

Facts that are often got wrong:

- Inconclusive never counts as a pass. Errors and missing scores count against the candidate or
  leave the verdict open.
- `gatemark compare BASE CAND` needs no store and no pack. `gatemark run PACK` calls targets and
  seals a result.
- Exit codes: 0 pass or done, 1 failed or refused, 2 bad input, 3 inconclusive, 4 does not verify,
  5 internal error.
- Evidence stays on the machine. Only targets that a pack names are called.
"""


def llms_page() -> str:
    """The page, from the index of the documentation."""
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    parts = _NAMED.split(index)[1:]
    lines = [SUMMARY]
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        lines.append(f"## {title}\n")
        for line in body.replace("\n  ", " ").splitlines():
            if not line.startswith("- "):
                continue
            for name, path, rest in _LINK.findall(line):
                words = rest.strip(" :,.")
                words = _first_sentence(path) if words in ("", "and") else words
                lines.append(f"- [{name[0].upper()}{name[1:]}]({path}): {words.replace('`', '')}")
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _first_sentence(path: str) -> str:
    """The first sentence of a page, as plain text."""
    text = (ROOT / "docs" / path).read_text(encoding="utf-8")
    body = re.sub(r"^#.*$|^<!--.*-->$|^!\[.*$", "", text, flags=re.MULTILINE).strip()
    first = " ".join(body.split("\n\n")[0].split())
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", first).replace("`", "")
    sentence = re.match(r".*?[.:](?=\s|$)", plain)
    return (sentence[0] if sentence else plain).rstrip(".:")
