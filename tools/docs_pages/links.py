"""Whether the relative links and images of Markdown pages lead anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote

_FENCE = re.compile(r"^ {0,3}(```+|~~~+)[^\n]*\n.*?^ {0,3}\1[^\n]*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_INLINE = re.compile(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
_HTML = re.compile(r"\b(?:src|srcset|href)=\"([^\"\s]+)\"")
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
_ELSEWHERE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//")


def link_problems(root: Path, pages: Sequence[Path]) -> Iterator[str]:
    """One line per link that leads to no file of the repository, or to no heading of its page."""
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for target in links_of(text):
            if _ELSEWHERE.match(target):
                continue
            why = _problem(root, page, target)
            if why:
                yield f"{page.relative_to(root)}: link {target!r} {why}"


def links_of(text: str) -> list[str]:
    """Every link and image of a page, code left out."""
    prose = _FENCE.sub("", text)
    without_code = _CODE.sub("", prose)
    return _INLINE.findall(without_code) + _HTML.findall(without_code)


@lru_cache(maxsize=256)
def anchors_of(text: str) -> frozenset[str]:
    """The anchors that a page's headings make, as code hosts make them."""
    seen: dict[str, int] = {}
    anchors = set()
    for title in _HEADING.findall(_FENCE.sub("", text)):
        slug = re.sub(r"[^\w\- ]", "", title.replace("`", "").lower()).replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        anchors.add(slug if count == 0 else f"{slug}-{count}")
    return frozenset(anchors)


def _problem(root: Path, page: Path, target: str) -> str | None:
    path, _, anchor = unquote(target).partition("#")
    found = (page.parent / path).resolve() if path else page
    if not found.is_relative_to(root):
        return "leaves the repository"
    if not found.exists():
        return "leads to no file"
    if not anchor or found.suffix != ".md":
        return None
    headings = anchors_of(found.read_text(encoding="utf-8"))
    return None if anchor in headings else "leads to no heading"
