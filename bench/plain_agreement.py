"""The straightforward way to score agreement: json, dictionaries, all rows in memory."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def final(row: dict[str, Any]) -> tuple[str, str]:
    flags = row.get("flags", {})
    if flags.get("provenance_violation") or flags.get("constraints_mismatch"):
        return "REJECT", "hard_flag"
    cited = set((row.get("answer_json") or {}).get("citations") or [])
    if cited and not cited <= set(row.get("retrieved_ids") or []):
        return "REJECT", "citation_out_of_scope"
    if row["auditor"]["label"] != "VALID":
        return "REJECT", "auditor_veto"
    if row["scholar"]["label"] in {"VALID", "NOT_IN_CONTEXT"}:
        return "VALID", "auditor_ok"
    return "REJECT", "incoherent_pair"


def read(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def joined(scholar: Path, auditor: Path) -> list[dict[str, Any]]:
    first = {row["qid"]: row for row in read(scholar)}
    second = {row["qid"]: row for row in read(auditor)}
    return [
        {"qid": qid, "scholar": first[qid], "auditor": second[qid]}
        for qid in sorted(first.keys() & second.keys())
    ]


def main(out: Path, *files: Path) -> None:
    rows = joined(*files) if len(files) > 1 else read(*files)
    table: dict[tuple[str, str], int] = {}
    for row in rows:
        cell = (row["scholar"]["label"], row["auditor"]["label"])
        table[cell] = table.get(cell, 0) + 1
    n = len(rows)
    labels = sorted({label for cell in table for label in cell})
    observed = sum(table.get((label, label), 0) for label in labels) / n
    chance = 0.0
    for label in labels:
        first = sum(count for (a, _), count in table.items() if a == label)
        second = sum(count for (_, b), count in table.items() if b == label)
        chance += first / n * (second / n)
    with out.open("w", encoding="utf-8") as stream:
        for row in rows:
            if row["scholar"]["label"] != row["auditor"]["label"]:
                line = (row["qid"], row["scholar"]["label"], row["auditor"]["label"], *final(row))
                stream.write("\t".join(line) + "\n")
    print(json.dumps({"n": n, "pa": observed, "kappa": (observed - chance) / (1 - chance)}))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
