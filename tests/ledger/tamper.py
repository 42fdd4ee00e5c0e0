"""What somebody with the database file in hand can do to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from gatemark.core.canonical import canonical_bytes, digest_bytes, document_members, join_members
from gatemark.core.result import OCCASION, STORED_DOCUMENT, Result
from gatemark.ledger.event import EventRow, decode_digest, encode_payload, encode_row
from gatemark.ledger.merkle import Frontier, leaf_hash

GONE: Any = "(removed)"
"""Stands for a member that is taken out of a document."""


def reseal(result: Result, **members: Any) -> Result:
    """A result with other members, under an id and a stamp that fit them: a forger's work.

    Values need not be what a result can hold; ``GONE`` removes a member.
    """
    document = {**msgspec.json.decode(result.document), **members}
    document = {name: value for name, value in document.items() if value is not GONE}
    stored = document_members(canonical_bytes(document))
    identity = digest_bytes(join_members(stored, stored.keys() - {"id", "stamp", *OCCASION}))
    occasion = {"id": identity, "occasion": {name: document[name] for name in OCCASION}}
    stamp = digest_bytes(canonical_bytes(occasion))
    made = msgspec.structs.replace(result, id=identity, stamp=stamp)
    made.__dict__[STORED_DOCUMENT] = canonical_bytes({**document, "id": identity, "stamp": stamp})
    return made


COLUMNS = "seq, prev, kind, at, actor, subject, payload_digest, digest"


class Tamperer:
    """Edits rows after taking the guards away, and can make the chain fit again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.connection = sqlite3.connect(folder / "gatemark.sqlite3")
        triggers = self.connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (name,) in triggers.fetchall():
            self.connection.execute(f"DROP TRIGGER {name}")

    def run(self, statement: str, *values: Any) -> None:
        self.connection.execute(statement, values)

    def row(self, seq: int) -> EventRow:
        found = self.connection.execute(
            f"SELECT {COLUMNS}, (SELECT data FROM payloads p WHERE p.seq = e.seq) "
            "FROM events e WHERE seq = ?",
            (seq,),
        ).fetchone()
        return EventRow._make(found)

    def size(self) -> int:
        return int(self.connection.execute("SELECT max(seq) FROM events").fetchone()[0])

    def put(self, row: EventRow) -> None:
        """Store an event under a digest that fits its content."""
        sealed = row._replace(digest=decode_digest(digest_bytes(encode_row(row))))
        marks = ", ".join("?" * 8)
        self.run(f"INSERT OR REPLACE INTO events ({COLUMNS}) VALUES ({marks})", *sealed[:8])

    def say(self, seq: int, payload: dict[str, Any]) -> None:
        """Give an event another payload, with a payload digest that fits."""
        data = encode_payload(payload, "0" * 32)
        self.run("INSERT OR REPLACE INTO payloads (seq, data) VALUES (?, ?)", seq, data)
        raw = decode_digest(digest_bytes(data))
        self.run("UPDATE events SET payload_digest = ? WHERE seq = ?", raw, seq)

    def rechain(self, first: int) -> None:
        """Make every event from ``first`` on fit the one before."""
        for seq in range(first, self.size() + 1):
            before = self.row(seq - 1).digest if seq > 1 else bytes(32)
            self.put(self.row(seq)._replace(prev=before))

    def rebuild_tree(self) -> None:
        """Make the tree fit the events."""
        self.run("DELETE FROM nodes")
        frontier = Frontier()
        for seq in range(1, self.size() + 1):
            for number, hashed in frontier.add(leaf_hash(encode_row(self.row(seq)))):
                self.run("INSERT INTO nodes (number, hash) VALUES (?, ?)", number, hashed)


@contextmanager
def tampering(folder: Path) -> Iterator[Tamperer]:
    """Somebody at work on a store."""
    who = Tamperer(folder)
    try:
        yield who
        who.connection.commit()
    finally:
        who.connection.close()
