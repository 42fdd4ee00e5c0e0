"""An attribution as plain text and as a page with the plan drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from gatemark import __version__
from gatemark.release.attribution.nouns import Attribution, PlanStep, Remedy
from gatemark.report import words

BOX_WIDTH: Final = 176
BOX_HEIGHT: Final = 46
GAP_X: Final = 24
GAP_Y: Final = 40
MARGIN: Final = 12
LABEL_MAX: Final = 19


class Box(msgspec.Struct, frozen=True):
    """One step and its position in the drawing."""

    id: str
    x: int
    y: int
    label: str
    sub: str
    title: str
    is_cause: bool


class Drawing(msgspec.Struct, frozen=True):
    """The template variables of a drawing."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    arrows: tuple[str, ...]
    description: str


def draw_plan(plan: Sequence[PlanStep], cause: str | None) -> Drawing:
    """Draw the plan with its cause marked."""
    depth: dict[str, int] = {}
    rows: dict[int, list[PlanStep]] = {}
    for step in plan:
        depth[step.id] = 1 + max((depth.get(source, -1) for source in step.sources), default=-1)
        rows.setdefault(depth[step.id], []).append(step)
    widest = max(len(row) for row in rows.values())
    width = 2 * MARGIN + widest * BOX_WIDTH + (widest - 1) * GAP_X
    boxes = {}
    for level, row in rows.items():
        used = len(row) * BOX_WIDTH + (len(row) - 1) * GAP_X
        for place, step in enumerate(row):
            boxes[step.id] = Box(
                id=step.id,
                x=(width - used) // 2 + place * (BOX_WIDTH + GAP_X),
                y=MARGIN + level * (BOX_HEIGHT + GAP_Y),
                label=words.shortened(step.id, LABEL_MAX),
                sub=words.shortened(f"{step.kind} {step.name}", LABEL_MAX),
                title=f"{step.id}: {step.kind} {step.name}",
                is_cause=step.id == cause,
            )
    arrows = tuple(
        _draw_arrow(boxes[source], boxes[step.id])
        for step in plan
        for source in step.sources
        if source in boxes
    )
    named = f"; the cause is {cause}" if cause else ""
    return Drawing(
        width=width,
        height=2 * MARGIN + len(rows) * BOX_HEIGHT + (len(rows) - 1) * GAP_Y,
        boxes=tuple(boxes.values()),
        arrows=arrows,
        description=f"Plan of {len(plan)} steps in {len(rows)} rows{named}.",
    )


def _draw_arrow(above: Box, below: Box) -> str:
    """Return the path of an arrow from a source down to a step that depends on it."""
    x1, y1 = above.x + BOX_WIDTH // 2, above.y + BOX_HEIGHT
    x2, y2 = below.x + BOX_WIDTH // 2, below.y - 2
    middle = (y1 + y2) // 2
    return f"M{x1} {y1}C{x1} {middle} {x2} {middle} {x2} {y2}"


CATCH_WORDS: Final = {
    "caught_then": "objected at the time, and the decision went ahead",
    "catchable_now": "would object today",
    "no_rule": "has no rule that objects",
    "not_asked": "was not asked: no rule pack was given",
}


FOUND_WORDS: Final = {
    "high": "CAUSE FOUND",
    "medium": "LIKELY CAUSE",
    "low": "A SUSPECT, NOT A CAUSE",
    "none": "NO CAUSE SHOWN",
}
UPSTREAM: Final = "upstream "


class AnsweredQuestion(msgspec.Struct, frozen=True):
    """One question that an attribution answers; the first line is the answer."""

    question: str
    lines: tuple[str, ...]


def answer_questions(found: Attribution) -> tuple[AnsweredQuestion, ...]:
    """Return the four questions with answers; none if no cause is shown."""
    if found.cause is None or found.verifier is None:
        return ()
    first = found.suspects[0]
    rules = tuple(f"{rule}: {why}" for rule, why in found.verifier.rules)
    verifier = (f"It {CATCH_WORDS[found.verifier.catch]}", *rules)
    return (
        AnsweredQuestion(
            "Which step caused it",
            (f"{first.step} ({first.kind} {first.name})", f"{first.confidence} confidence"),
        ),
        AnsweredQuestion("Which model lineage was active", _list_versions(found, "model")),
        AnsweredQuestion(
            "Which prompt revision and retrieval snapshot",
            _list_versions(found, "prompt", "retrieval"),
        ),
        AnsweredQuestion("Should the verifier have caught it", verifier),
    )


def _list_versions(found: Attribution, *kinds: str) -> tuple[str, ...]:
    """Return the versions of some kinds at the cause or, if it has none, in earlier steps."""
    own: list[str] = []
    other: list[str] = []
    for kind in kinds:
        before: list[str] = []
        here: list[str] = []
        for name, version in found.active.items():
            where = before if name.startswith(UPSTREAM) else here
            what, _, called = name.removeprefix(UPSTREAM).partition(":")
            if what == kind:
                where.append(f"{kind} {called}: {version}")
        own.extend(here)
        if not here:
            other.extend((f"no {kind} at this step", *(f"before it, {line}" for line in before)))
    return (*own, *other)


def summarize_finding(found: Attribution) -> str:
    """Return the finding in one line."""
    if found.cause is None:
        return f"Decision {found.decision}: {found.reason}"
    first = found.suspects[0]
    step = f"step {first.step} ({first.kind} {first.name})"
    if first.probability is not None and not first.recorded:
        return (
            f"Decision {found.decision}: the most likely first mistake is {step}, "
            f"probability {first.probability:.2f}, {first.confidence} confidence"
        )
    return f"Decision {found.decision} went wrong at {step}, {first.confidence} confidence"


def replay_words(found: Attribution) -> str:
    """Return how steps were replayed, or why not."""
    replay = found.replay
    said = f"Steps were run again {replay.repeats} times each, live, seed {replay.seed}"
    if replay.mode == "recorded":
        said = f"Steps were looked up in recorded decisions, at most {replay.repeats} runs of each"
    if replay.calls:
        said += f", {replay.calls} calls"
    if replay.mode == "none":
        said = f"No step was run again: {replay.reason}"
    if replay.unused:
        said += f"; no step has {', '.join(replay.unused)} of the reference"
    return said


def change_words(found: Attribution) -> str:
    """Return the smallest set of changes as a sentence."""
    changes = found.changes
    if changes is None:
        return "No versions were compared"
    if changes.reason is not None:
        return f"Not found: {changes.reason}"
    sure = "" if changes.is_minimal else "; a smaller set could not be ruled out"
    named = ", ".join(changes.smallest) or "none"
    return f"{named} (of {len(changes.changed)} changed, {changes.tests} tests{sure})"


def render_attribution_text(found: Attribution, said: Mapping[str, str] | None = None) -> str:
    """Return the text for a terminal; ``said`` has people's decisions on the proposals."""
    lines = [words.clean(summarize_finding(found)), words.clean(replay_words(found)), ""]
    for line in found.suspects:
        share = words.NOT_MEASURED
        if line.right_after_repair is not None:
            share = f"{line.right_after_repair:.2f}"
        label = words.clean(f"{line.step} ({line.kind} {line.name})")
        lines.append(f"{line.rank:>3}  {line.confidence:<7}{share:>14}  {label}")
        lines.append(f"     {words.clean(line.why)}")
    lines.append("")
    if found.by_name:
        shares = ", ".join(f"{name} {share:.2f}" for name, share in found.by_name)
        lines.append(words.clean(f"probability by name: {shares}"))
    lines.extend(words.clean(f"active: {name} {version}") for name, version in found.active.items())
    if found.verifier is not None:
        lines.append(f"verifier: {CATCH_WORDS[found.verifier.catch]}")
        lines.extend(words.clean(f"  {rule}: {why}") for rule, why in found.verifier.rules)
    if found.changes is not None:
        lines.append(words.clean(f"smallest change: {change_words(found)}"))
    lines.extend(
        words.clean(f"{_name_state(one, said)} {one.kind.replace('_', ' ')}: {one.summary}")
        for one in found.proposals
    )
    return "\n".join([*lines, "", found.id])


def _name_state(proposal: Remedy, said: Mapping[str, str] | None) -> str:
    return "proposed" if said is None else said.get(proposal.kind, "waiting:")


def render_attribution_page(found: Attribution, said: Mapping[str, str] | None = None) -> bytes:
    """Return the page."""
    # Pages need the report extra; plain text does not.
    from gatemark.report.pages import page_environment  # noqa: PLC0415

    template = page_environment("gatemark.release.attribution").get_template("attribution.html")
    return template.render(attribution_context(found, said), version=__version__).encode()


def attribution_context(
    found: Attribution, said: Mapping[str, str] | None = None
) -> dict[str, object]:
    """Return the template variables of an attribution page."""
    return {
        "found": found,
        "headline": summarize_finding(found),
        "verdict": FOUND_WORDS[found.suspects[0].confidence if found.cause else "none"],
        "answers": answer_questions(found),
        "replay": replay_words(found),
        "changes": change_words(found),
        "drawing": draw_plan(found.plan, found.cause),
        "said": said or {},
        "box_width": BOX_WIDTH,
        "box_height": BOX_HEIGHT,
    }
