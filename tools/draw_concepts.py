"""The pictures of docs/explanation/concepts.md: ``python tools/draw_concepts.py``.

Boxes and arrows at fixed places, so that the same code gives the same bytes on every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Final

from plot_statistics import COLOURS, FOLDER, HAIR, INK

SOFT, ACCENT = "#f3f5f7", "#184e80"
SIZE: Final = 14
LINE: Final = 19
SMALL: Final = f'font-size="12" fill="{INK}"'
Box = tuple[int, int, int, int]
"""Left, top, width and height."""


class Drawing:
    """Boxes with words, and arrows between them, as SVG."""

    def __init__(self, title: str, width: int, height: int) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'font-family="system-ui, sans-serif" font-size="{SIZE}" role="img">',
            f"<title>{title}</title>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
            'markerHeight="8" orient="auto">'
            f'<path d="M0 0 8 4 0 8z" fill="{INK}"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        ]

    def box(self, place: Box, head: str, lines: Sequence[str] = (), colour: str = ACCENT) -> None:
        """A box with a heading and lines below it, centred."""
        left, top, width, height = place
        self._parts.append(
            f'<rect x="{left}" y="{top}" width="{width}" height="{height}" rx="6" fill="{SOFT}" '
            f'stroke="{colour}" stroke-width="2"/>'
        )
        middle = left + width // 2
        first = top + (height - LINE * len(lines)) // 2 + SIZE // 3
        self.words(middle, first, head, f'font-weight="600" fill="{colour}"')
        for number, line in enumerate(lines, start=1):
            self.words(middle, first + number * LINE, line, f'fill="{INK}"')

    def words(self, x: int, y: int, text: str, extra: str = f'fill="{INK}"') -> None:
        """Words around a middle."""
        self._parts.append(f'<text x="{x}" y="{y}" text-anchor="middle" {extra}>{text}</text>')

    def arrow(self, *points: tuple[int, int], dashed: bool = False) -> None:
        """An arrow through points."""
        path = " ".join(f"{x},{y}" for x, y in points)
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{INK}" stroke-width="1.6"{dashes} '
            'marker-end="url(#tip)"/>'
        )

    def rule(self, start: tuple[int, int], end: tuple[int, int], colour: str, width: int) -> None:
        """A straight line."""
        self._parts.append(
            f'<line x1="{start[0]}" y1="{start[1]}" x2="{end[0]}" y2="{end[1]}" '
            f'stroke="{colour}" stroke-width="{width}"/>'
        )

    def dot(self, x: int, y: int, colour: str) -> None:
        """A dot."""
        self._parts.append(f'<circle cx="{x}" cy="{y}" r="5" fill="{colour}"/>')

    def svg(self) -> str:
        """The picture."""
        return "\n".join((*self._parts, "</svg>")) + "\n"


def loop() -> str:
    """From evidence to production, and back."""
    picture = Drawing("From evidence to production, and back", 720, 300)
    boxes: tuple[tuple[Box, str, tuple[str, ...]], ...] = (
        ((10, 20, 130, 92), "Evidence", ("answers, labels,", "logs, typed")),
        ((200, 20, 130, 92), "Numbers", ("with interval,", "n, or a reason")),
        ((390, 20, 130, 92), "Verdict", ("pass, fail or", "inconclusive")),
        ((580, 20, 130, 92), "Sealed result", ("named by its", "digest")),
        ((580, 190, 130, 92), "Stages", ("shadow, canary,", "enabled")),
        ((390, 190, 130, 92), "Watch", ("canary windows,", "drift")),
        ((200, 190, 130, 92), "Demotion", ("or rollback,", "by itself")),
        ((10, 190, 130, 92), "Attribution", ("which step", "went wrong")),
    )
    for place, head, lines in boxes:
        picture.box(place, head, lines)
    for left in (140, 330, 520):
        picture.arrow((left + 4, 66), (left + 56, 66))
        picture.arrow((left + 56, 236), (left + 4, 236))
    picture.arrow((645, 116), (645, 186))
    picture.words(608, 156, "cited by")
    picture.arrow((75, 186), (75, 116), dashed=True)
    picture.words(132, 156, "new test items")
    return picture.svg()


def three_answers() -> str:
    """What the interval of a drop says against a margin."""
    picture = Drawing("Three answers to one question", 720, 230)
    middle, margin = 300, 440
    picture.rule((middle, 34), (middle, 196), HAIR, 2)
    picture.rule((margin, 34), (margin, 196), INK, 2)
    picture.words(middle, 24, "no change")
    picture.words(margin, 24, "allowed drop")
    picture.arrow((220, 210), (640, 210))
    picture.words(430, 226, "the candidate is worse")
    rows = (
        ("pass", 70, (250, 390), "all of it is within the margin"),
        ("inconclusive", 115, (320, 560), "more items would decide"),
        ("fail", 160, (490, 660), "all of it is beyond the margin"),
    )
    for verdict, y, (start, end), why in rows:
        colour = COLOURS[verdict]
        picture.words(110, y + 5, verdict, f'font-weight="600" fill="{colour}"')
        picture.rule((start, y), (end, y), colour, 4)
        picture.dot((start + end) // 2, y, colour)
        picture.words(110, y + 24, why, SMALL)
    return picture.svg()


def stages() -> str:
    """The stages of a version."""
    picture = Drawing("The stages of a version", 720, 250)
    names = ("draft", "evaluating", "eligible", "shadow", "canary", "enabled")
    notes = ("", "pack runs", "it passed", "sees copies", "1, 5, 25 %", "live")
    for number, (name, note) in enumerate(zip(names, notes, strict=True)):
        left = 8 + number * 120
        colour = COLOURS["pass"] if name == "enabled" else ACCENT
        picture.box((left, 60, 100, 64), name, (note,) if note else (), colour)
        if number:
            picture.arrow((left - 18, 92), (left - 3, 92))
    picture.words(598, 22, "a second person approves", SMALL)
    picture.box((8, 180, 100, 50), "rejected", (), COLOURS["fail"])
    picture.arrow((158, 128), (158, 205), (112, 205))
    picture.box((488, 180, 220, 50), "demoted or rolled back", (), COLOURS["fail"])
    for x in (538, 658):
        picture.arrow((x, 30), (x, 56))
        picture.arrow((x, 128), (x, 176))
    picture.words(598, 158, "harm or drift", SMALL)
    picture.arrow((484, 205), (198, 205), (198, 128), dashed=True)
    picture.words(345, 196, "only with new evidence", SMALL)
    return picture.svg()


PICTURES: Final[dict[str, Callable[[], str]]] = {
    "concepts-loop.svg": loop,
    "concepts-answers.svg": three_answers,
    "concepts-stages.svg": stages,
}


def main() -> int:
    """Write every picture."""
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
