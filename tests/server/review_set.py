"""Reviews and labels for the browser and for pictures: one open, two closed, one set of labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.server.scene import ASSET, Scene

from gatemark.release.review.close import CloseReview, close_review
from gatemark.release.review.create import (
    CreateReview,
    VoteRequest,
    cast_vote,
    create_review,
    next_pair,
)
from gatemark.release.review.labelling import LabelPlan
from gatemark.release.review.labels import GiveLabel, create_labels, give_label, next_sample
from gatemark.workspace import Workspace

ASKED = (
    ("My parcel shows “delivered”, but nothing is here.", "a missing parcel"),
    ("Can I change the address after ordering?", "a change of address"),
    ("The box arrived open and wet.", "a damaged parcel"),
    ("Do you deliver on Saturdays?", "Saturday delivery"),
    ("I was charged twice for shipping.", "a double charge"),
    ("How do I send something back without a printer?", "a return"),
)
WARM = (
    "I am sorry about {what}. I have opened case {case} for you.\n\n"
    "1. Please check with your neighbours and the parcel shop on your card.\n"
    "2. If it does not turn up by tomorrow noon, we send a new one at our cost.\n\n"
    "You do not have to do anything else."
)
SHORT = (
    "Regarding {what}: please wait two working days and then write again with your order "
    "number. Reference {case}."
)
HOSTILE = (
    "Sure! <script>document.title = 'owned'</script>\n"
    "[Track your parcel](javascript:document.title='owned')\n"
    '<img src="https://evil.example/x.png" onerror="document.title=\'owned\'">'
)


def write_samples(folder: Path, name: str, text: str, count: int) -> str:
    rows = []
    for at in range(count):
        asked, what = ASKED[at % len(ASKED)]
        output = text.format(what=what, case=1000 + at) if "{" in text else text
        rows.append(
            {
                "schema": "gatemark.sample/1",
                "id": f"mail-{at:03}",
                "input": f"{asked} (order {4711 + at})",
                "output": output,
                "scores": {},
            }
        )
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def judged(workspace: Workspace, name: str, person: str, *, slips: int, limit: int = 1000) -> None:
    """Somebody who likes warm answers, but for every so many-th order."""
    for _ in range(limit):
        pair = next_pair(workspace, name, person)
        if pair is None:
            break
        order = int(str(pair.input).rpartition(" ")[2].rstrip(")") or 0)
        a, b = (str(text).startswith("I am sorry") for text in (pair.a, pair.b))
        answered: Any = "both_good" if a == b else "a" if a else "b"
        if answered != "both_good" and order % slips == 0:
            answered = "b" if a else "a"
        cast_vote(
            workspace,
            VoteRequest(review=name, actor=person, token=pair.token, answered=answered),
        )


def add_reviews(scene: Scene, folder: Path) -> None:
    """What the pages of reviews and labels show."""
    workspace = scene.workspace.acting_as("eve")
    warm, short = (
        write_samples(folder, name, text, 30)
        for name, text in (("candidate", WARM), ("baseline", SHORT))
    )
    gold = folder / "gold.jsonl"
    gold.write_text(
        "".join(
            json.dumps(
                {
                    "id": f"g{n}",
                    "input": f"Gold (order {n})",
                    "better": "I am sorry.",
                    "worse": "No.",
                }
            )
            + "\n"
            for n in (1, 2, 3, 4)
        ),
        encoding="utf-8",
    )
    create_review(
        workspace,
        CreateReview(
            name="reply-tone",
            votes_per_pair=2,
            reviewers=("ann", "bob"),
            arbiter="cat",
            question="Which reply would you rather get?",
            files={"candidate": warm, "baseline": short},
            gold=str(gold),
            assets={"candidate": f"{ASSET}@1.2.0", "baseline": f"{ASSET}@1.0.0"},
        ),
    )
    judged(workspace, "reply-tone", "ann", slips=9)
    judged(workspace, "reply-tone", "bob", slips=12)
    judged(workspace, "reply-tone", "cat", slips=100_000)
    close_review(workspace, CloseReview(review="reply-tone"))
    texts = {"warm": WARM, "brief": SHORT, "old": "Ticket {case}, {what}. Closed."}
    files = {arm: write_samples(folder, arm, text, 24) for arm, text in texts.items()}
    three = CreateReview(
        name="three-drafts", candidates=("warm", "brief"), baseline="old", files=files
    )
    create_review(workspace, three)
    judged(workspace, "three-drafts", "bob", slips=7)
    close_review(workspace, CloseReview(review="three-drafts"))
    opened = CreateReview(
        name="parcel-replies",
        votes_per_pair=5,
        question="Which reply would you rather get?",
        files={"candidate": warm, "baseline": short},
    )
    create_review(workspace, opened)
    judged(workspace, "parcel-replies", "bob", slips=9, limit=11)
    mood = LabelPlan(
        name="mood",
        labels=("calm", "worried", "angry"),
        source="support mail, June",
        field="target",
        question="In what mood is the writer?",
    )
    create_labels(workspace, mood, write_samples(folder, "mood", SHORT, 12))
    labels = LabelPlan(
        name="tone",
        labels=("friendly", "neutral", "rude"),
        source="support mail, May",
        labels_per_item=2,
        question="How does this reply sound?",
    )
    create_labels(workspace, labels, write_samples(folder, "tone", WARM, 6))
    for person, odd in (("ann", ""), ("bob", "mail-002")):
        while (item := next_sample(workspace, "tone", person)) is not None:
            word = "neutral" if item.id == odd else "friendly"
            give_label(workspace, GiveLabel(labels="tone", actor=person, item=item.id, label=word))
