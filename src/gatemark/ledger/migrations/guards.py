"""What makes the database itself refuse changes, in each database's own words.

SQLite has triggers; its ``INSERT OR REPLACE`` fires them only with recursive_triggers on, which
every connection of ours sets. PostgreSQL has triggers too, and the right to change is revoked even
from the owner of the tables, so that undoing it takes a deliberate GRANT. All names in the
statements are fixed here and in the migrations; nothing comes from outside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

REFUSE = "gatemark_refuse"


def forbid_changes(connection: sa.Connection, table: str) -> None:
    """Rows of the table can be added and read, nothing else."""
    if connection.dialect.name == "sqlite":
        for act in ("update", "delete"):
            _abort(connection, table, act, f"{table} are append-only")
        return
    _run(
        connection,
        f"CREATE OR REPLACE FUNCTION {REFUSE}() RETURNS trigger LANGUAGE plpgsql AS $$ "
        "BEGIN RAISE EXCEPTION USING MESSAGE = TG_TABLE_NAME || ' are append-only'; END $$",
    )
    for act in ("update", "delete", "truncate"):
        _call(connection, table, act, REFUSE, each="STATEMENT")
    _run(connection, f"REVOKE UPDATE, DELETE, TRUNCATE ON {table} FROM PUBLIC, CURRENT_USER")


def require_succession(connection: sa.Connection) -> None:
    """An event can only be added right after the last one, and must name it."""
    if connection.dialect.name == "sqlite":
        _run(
            connection,
            "CREATE TRIGGER events_in_succession BEFORE INSERT ON events "
            "WHEN NEW.seq <> 1 + (SELECT coalesce(max(seq), 0) FROM events) "
            "OR NEW.prev <> coalesce((SELECT digest FROM events WHERE seq = NEW.seq - 1), "
            "zeroblob(32)) "
            "BEGIN SELECT RAISE(ABORT, 'events follow each other without a gap'); END",
        )
        return
    _run(
        connection,
        "CREATE FUNCTION gatemark_succession() RETURNS trigger LANGUAGE plpgsql AS $$ "  # noqa: S608
        "DECLARE last_seq bigint; last_digest bytea; BEGIN "
        f"SELECT seq, digest INTO last_seq, last_digest FROM {_quote_schema(connection)}.events "
        "ORDER BY seq DESC LIMIT 1; "
        "IF NEW.seq <> coalesce(last_seq, 0) + 1 "
        "OR NEW.prev <> coalesce(last_digest, decode(repeat('00', 32), 'hex')) "
        "THEN RAISE EXCEPTION 'events follow each other without a gap' "
        "USING ERRCODE = 'integrity_constraint_violation'; "
        "END IF; RETURN NEW; END $$",
    )
    _run(
        connection,
        "CREATE TRIGGER events_in_succession BEFORE INSERT ON events "
        "FOR EACH ROW EXECUTE FUNCTION gatemark_succession()",
    )


def allow_erasure(connection: sa.Connection, table: str, tombstones: str, key: str) -> None:
    """Rows can be added and read, and removed once their tombstone is there."""
    message = f"{table} are removed only after their tombstone"
    if connection.dialect.name == "sqlite":
        _abort(connection, table, "update", f"{table} are append-only")
        is_recorded = f"EXISTS (SELECT 1 FROM {tombstones} WHERE {key} = OLD.{key})"  # noqa: S608
        _abort(connection, table, "delete", message, f"WHEN NOT {is_recorded} ")
        return
    function = f"gatemark_erase_{table}"
    _run(
        connection,
        f"CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "  # noqa: S608
        f"IF NOT EXISTS (SELECT 1 FROM {_quote_schema(connection)}.{tombstones} "
        f"WHERE {key} = OLD.{key}) "
        f"THEN RAISE EXCEPTION '{message}'; END IF; RETURN OLD; END $$",
    )
    _call(connection, table, "delete", function, each="ROW")
    for act in ("update", "truncate"):
        _call(connection, table, act, REFUSE, each="STATEMENT")
    _run(connection, f"REVOKE UPDATE, TRUNCATE ON {table} FROM PUBLIC, CURRENT_USER")


def allow_emptying(
    connection: sa.Connection, table: str, other_columns: Sequence[str], named: Mapping[str, str]
) -> None:
    """Rows cannot be changed but once: their document is emptied when the last event erases it.

    ``named`` has what the payload of that ``content_erased`` must say, as SQL over the old row.
    """
    message = f"{table} are append-only; only an erasure empties a document"
    _run(
        connection, f"DROP TRIGGER IF EXISTS {table}_no_update" + _write_on_table(connection, table)
    )
    if connection.dialect.name == "sqlite":
        said = "json_extract(CAST(payloads.data AS TEXT), '$.payload.{}') IS {}"
        matches = " AND ".join(said.format(*one) for one in named.items())
        same = " AND ".join(f"NEW.{column} IS OLD.{column}" for column in other_columns)
        # Compared by IS, so that no part of it is ever null, which would let the change through.
        erased = (
            f"NEW.document IS x'' AND OLD.document IS NOT x'' AND {same} "  # noqa: S608
            "AND EXISTS (SELECT 1 FROM events JOIN payloads ON payloads.seq = events.seq "
            "WHERE events.seq = (SELECT max(seq) FROM events) "
            f"AND events.kind = 'content_erased' AND {matches})"
        )
        _abort(connection, table, "update", message, f"WHEN NOT ({erased}) ")
        return
    schema, function = _quote_schema(connection), f"gatemark_empty_{table}"
    matches = " AND ".join(f"said #>> '{{payload,{key}}}' = {sql}" for key, sql in named.items())
    _run(
        connection,
        f"CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$ "  # noqa: S608
        "DECLARE said json; BEGIN "
        f"SELECT convert_from(data, 'UTF8')::json INTO said FROM {schema}.payloads "
        f"WHERE seq = (SELECT max(seq) FROM {schema}.events) AND EXISTS (SELECT 1 FROM "
        f"{schema}.events e WHERE e.seq = payloads.seq AND e.kind = 'content_erased'); "
        "IF octet_length(NEW.document) = 0 AND octet_length(OLD.document) > 0 "
        "AND to_jsonb(NEW) - 'document' = to_jsonb(OLD) - 'document' "
        f"AND {matches} THEN RETURN NEW; END IF; "
        f"RAISE EXCEPTION '{message}'; END $$",
    )
    _call(connection, table, "update", function, each="ROW")
    _run(connection, f"GRANT UPDATE (document) ON {table} TO CURRENT_USER")


def _abort(
    connection: sa.Connection, table: str, act: str, message: str, condition: str = ""
) -> None:
    """Let SQLite refuse an act on a table."""
    name = f"{table}_no_{act} BEFORE {act.upper()} ON {table}"
    body = f"BEGIN SELECT RAISE(ABORT, '{message}'); END"
    _run(connection, f"CREATE TRIGGER {name} {condition}{body}")


def _call(connection: sa.Connection, table: str, act: str, function: str, *, each: str) -> None:
    """Let PostgreSQL call a function before an act on a table."""
    name = f"{table}_no_{act} BEFORE {act.upper()} ON {table}"
    _run(connection, f"CREATE TRIGGER {name} FOR EACH {each} EXECUTE FUNCTION {function}()")


def _write_on_table(connection: sa.Connection, table: str) -> str:
    """Where a trigger is, for databases that ask."""
    return "" if connection.dialect.name == "sqlite" else f" ON {table}"


def _quote_schema(connection: sa.Connection) -> str:
    """The quoted name of the schema the tables stand in; triggers run under any search path."""
    name = str(connection.execute(sa.text("SELECT current_schema()")).scalar_one())
    return connection.dialect.identifier_preparer.quote(name)


def whole_number(name: str, *, key: bool = False, nullable: bool = False) -> sa.Column[int]:
    """Return a column of integers. SQLite keeps its rows by a key of this very type only."""
    kind = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column(name, kind, primary_key=key, autoincrement=False, nullable=nullable)


def _run(connection: sa.Connection, statement: str) -> None:
    connection.exec_driver_sql(statement)
