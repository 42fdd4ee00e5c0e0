"""What the agreement exam finds in rows with the source's labels, written down plainly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gatemark.core.text import inert_cell
from gatemark.evidence.look_alikes import bare_text
from gatemark.evidence.personal_data import personal_data

Row = Mapping[str, Any]
REASON_MAX = 500
TOKEN = "not in context"


def flag_of(row: Row) -> str:
    if any((row.get("flags") or {}).values()):
        return "hard_flag"
    cited = (row.get("answer_json") or {}).get("citations") or []
    if cited and row.get("retrieved_ids") is None:
        return "retrieved_ids_missing"
    return "citation_out_of_scope" if set(cited) - set(row.get("retrieved_ids") or ()) else ""


def rule_on(row: Row) -> tuple[str, str]:
    scholar, auditor = row["scholar"]["label"], row["auditor"]["label"]
    if flag := flag_of(row):
        return "REJECT", flag
    if auditor != "VALID":
        return "REJECT", "auditor_abstain" if auditor == "ABSTAIN" else "auditor_veto"
    if scholar in {"VALID", "NOT_IN_CONTEXT"}:
        return "VALID", "auditor_ok"
    return "REJECT", "scholar_abstain" if scholar == "ABSTAIN" else "incoherent_pair"


def is_inexact_refusal(row: Row) -> bool:
    claim = (row.get("answer_json") or {}).get("claim")
    if not claim:
        return False
    labels = {row[side]["label"] for side in ("scholar", "auditor")}
    if claim == TOKEN:
        return labels == {"VALID"} and not flag_of(row)
    if labels == {"NOT_IN_CONTEXT"} and not flag_of(row):
        return True
    words = "".join(sign if sign.isalnum() else " " for sign in claim.casefold()).split()
    return words == TOKEN.split() and len(claim) <= len(TOKEN) + 16


def is_copied(row: Row) -> bool:
    first, second = (row[side].get("reason") for side in ("scholar", "auditor"))
    if not first or not second:
        return False
    same = bare_text(first, folds=True) == bare_text(second, folds=True)
    words = "".join(sign if sign.isalnum() else " " for sign in first).split()
    return same and len(words) >= 4


def find_facts(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the facts of the exam's report that rows alone decide."""
    odd = [
        (row["qid"], side, row[side].get("reason") or "")
        for row in rows
        for side in ("scholar", "auditor")
    ]
    rulings = [rule_on(row) for row in rows]
    return {
        "n": len(rows),
        "finals": dict(sorted(Counter(final for final, _ in rulings).items())),
        "why": dict(sorted(Counter(why for _, why in rulings).items())),
        "disagreements": sum(row["scholar"]["label"] != row["auditor"]["label"] for row in rows),
        "personal_data": [
            f"{qid} ({side}: {', '.join(kinds)})"
            for qid, side, reason in odd
            if (kinds := personal_data(reason))
        ],
        "long_reason": [
            f"{qid} ({side}: {len(reason)} characters)"
            for qid, side, reason in odd
            if len(reason) > REASON_MAX
        ],
        "inexact_refusal": [row["qid"] for row in rows if is_inexact_refusal(row)],
        "copied_reasons": sum(map(is_copied, rows)),
        "voted_rows": sum(
            bool(row[s].get("votes")) for row in rows for s in ("scholar", "auditor")
        ),
    }


def write_finals(rows: Sequence[Row]) -> str:
    lines = [("qid", "scholar", "auditor", "final", "why", "flag")]
    for row in rows:
        name = inert_cell(row["qid"].replace("\\", "\\\\"))
        labels = row["scholar"]["label"], row["auditor"]["label"]
        lines.append((name, *labels, *rule_on(row), flag_of(row)))
    return "".join("\t".join(line) + "\n" for line in lines)


EVIDENCE = ("answer_json", "retrieved_ids")


def join_sides(sides: Sequence[Sequence[Row]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows that the first two sides share, by id, and the ids of unequal evidence."""
    by_id = [{row["qid"]: row for row in side} for side in sides]
    rows, different = [], []
    for qid in sorted(by_id[0].keys() & by_id[1].keys()):
        found = [side[qid] for side in by_id if qid in side]
        row: dict[str, Any] = {"qid": qid, "scholar": found[0], "auditor": found[1]}
        is_same = True
        for key in EVIDENCE:
            given = [one[key] for one in found if key in one]
            is_same = is_same and all(one == given[0] for one in given)
            row[key] = next((one for one in given if one is not None), None)
        flags = [one["flags"] for one in found if "flags" in one]
        row["flags"] = next((one for one in flags if any(one.values())), {})
        rows.append(row)
        if not is_same:
            different.append(qid)
    return rows, different
