"""Synthetic arms and reviewers for the tests of reviews."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gatemark.release.review.create import (
    CreateReview,
    ShownPair,
    VoteRequest,
    cast_vote,
    create_review,
    next_pair,
)
from gatemark.workspace import Workspace

KEY = bytes(range(32))


def write_arm(folder: Path, name: str, count: int, **more: Any) -> str:
    """Samples whose output names its arm, so that a test can see what a reviewer must not."""
    path = folder / f"{name}.jsonl"
    rows = [
        {
            "schema": "gatemark.sample/1",
            "id": f"q{at:03}",
            "input": f"question {at}",
            "output": f"{name} {at}",
            "scores": {},
            **more,
        }
        for at in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def write_gold(folder: Path, better: int, same: int) -> str:
    path = folder / "gold.jsonl"
    rows: list[dict[str, Any]] = [
        {"id": f"g{at}", "input": "gold", "better": f"good {at}", "worse": f"poor {at}"}
        for at in range(better)
    ]
    rows += [{"id": f"s{at}", "input": "gold", "same": f"same {at}"} for at in range(same)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def make_review(workspace: Workspace, folder: Path, count: int = 24, **plan: Any) -> None:
    gold = plan.pop("gold", None)
    arms = plan.pop("arms", ("new", "old"))
    name = plan.pop("name", "letters")
    files = {arm: write_arm(folder, arm, count) for arm in arms}
    request = CreateReview(
        name=name, candidates=arms[:-1], baseline=arms[-1], files=files, gold=gold, **plan
    )
    create_review(workspace, request, key=KEY)


def prefers(*order: str) -> Callable[[ShownPair], str]:
    """A reviewer who likes the first of these words best; equal answers are both good."""

    def choose(pair: ShownPair) -> str:
        ranks = [
            next((at for at, word in enumerate(order) if str(text).startswith(word)), len(order))
            for text in (pair.a, pair.b)
        ]
        if ranks[0] == ranks[1]:
            return "both_good"
        return "a" if ranks[0] < ranks[1] else "b"

    return choose


def vote_all(
    workspace: Workspace, reviewer: str, choose: Callable[[ShownPair], str], most: int | None = None
) -> list[ShownPair]:
    """Vote until nothing is left, or ``most`` times; gives every pair that was shown."""
    seen: list[ShownPair] = []
    while len(seen) != most and (pair := next_pair(workspace, "letters", reviewer)) is not None:
        seen.append(pair)
        answered: Any = choose(pair)
        cast_vote(
            workspace,
            VoteRequest(review="letters", actor=reviewer, token=pair.token, answered=answered),
        )
    return seen
