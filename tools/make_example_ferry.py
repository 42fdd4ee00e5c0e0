"""Make ``examples/ferry``: the invented help desk of a ferry company.

Two evaluations in the shape that promptfoo writes: the new prompt lost the price list, so it gets
questions about prices wrong. And labelled questions, as the data set of a pack.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

TOPICS = {
    "times": ("When does the ferry to {island} leave?", "{number}:15"),
    "prices": ("What does a ticket to {island} cost?", "{number} crowns"),
    "luggage": ("May I take a bicycle to {island}?", "yes, on deck {number}"),
    "weather": ("Does the ferry to {island} run in a storm?", "up to force {number}"),
}
ISLANDS = ("Alm", "Borga", "Sund", "Vika", "Tor")
COUNT = 80
WRONG = "I do not know."


def evaluation(name: str) -> dict[str, object]:
    """One evaluation; both are asked the same questions."""
    draw = random.Random(11)  # noqa: S311 - invented data, not a secret
    rows = []
    for index in range(COUNT):
        topic = tuple(TOPICS)[index % len(TOPICS)]
        question, answer = TOPICS[topic]
        words = {"island": ISLANDS[index % len(ISLANDS)], "number": str(index // 4 + 3)}
        chance = draw.random()
        right = chance > (0.85 if (name, topic) == ("desk-v2", "prices") else 0.06)
        wanted = answer.format(**words)
        rows.append(
            {
                "testIdx": index,
                "promptIdx": 0,
                "provider": {"id": name},
                "vars": {"question": question.format(**words)},
                "testCase": {
                    "assert": [{"type": "contains", "value": wanted}],
                    "metadata": {"id": f"ferry-{index + 1:02d}", "topic": topic},
                },
                "response": {"output": f"The answer is {wanted}." if right else WRONG},
                "success": right,
                "score": int(right),
                "failureReason": 0 if right else 1,
            }
        )
    passed = sum(bool(row["success"]) for row in rows)
    stats = {"successes": passed, "failures": COUNT - passed, "errors": 0}
    return {"evalId": f"eval-{name}", "results": {"version": 3, "results": rows, "stats": stats}}


def questions() -> list[dict[str, object]]:
    """Questions with their topic; every eighth is shouted."""
    rows: list[dict[str, object]] = []
    for index in range(2 * COUNT):
        topic = tuple(TOPICS)[index % len(TOPICS)]
        text = f"{TOPICS[topic][0]} I come on day {index + 1}.".format(island=ISLANDS[index % 5])
        shown = text.upper() if index % 8 == 1 else text
        rows.append({"id": f"q{index + 1:03d}", "input": shown, "target": topic})
    return rows


def files() -> dict[str, str]:
    """Names and texts; one row per line, so that changes can be read."""
    logs = {"base.json": "desk-v1", "cand.json": "desk-v2"}
    texts = {file: json.dumps(evaluation(name)) for file, name in logs.items()}
    broken = {
        file: text.replace(', {"testIdx"', ',\n{"testIdx"') + "\n" for file, text in texts.items()
    }
    return {**broken, "questions.jsonl": "".join(json.dumps(row) + "\n" for row in questions())}


def main() -> None:
    """Write the files."""
    folder = Path(__file__).parents[1] / "examples" / "ferry"
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
