"""Alembic's way in: the caller hands over a connection inside a transaction."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
