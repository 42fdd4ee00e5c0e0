"""Sign-ins under way, and the accounts of people who use a provider."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import sqlalchemy as sa

from gatemark.core.errors import NotAllowedError, RefusedError
from gatemark.ledger.database import Database
from gatemark.server.accounts.nouns import check_name, hash_secret, make_secret, to_seconds
from gatemark.server.accounts.stores.tables import IDENTITIES, PEOPLE, SIGN_IN_TRIES

TRY_MINUTES: Final = 10
MAX_TRIES: Final = 10_000
MAX_ISSUER: Final = 512


class SqlIdentities:
    """Accounts of people who sign in through a provider, by issuer and subject."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def new_try(self, back_to: str, now: datetime) -> str:
        """Return the secret of a new sign-in, for the browser; valid once, for ten minutes."""
        secret = make_secret()
        expires = to_seconds(now + timedelta(minutes=TRY_MINUTES))
        row = {"hash": hash_secret(secret), "back_to": back_to[:512], "expires_s": expires}
        with self._database.adding() as connection:
            gone = SIGN_IN_TRIES.c.expires_s <= to_seconds(now)
            connection.execute(sa.delete(SIGN_IN_TRIES).where(gone))
            count = connection.execute(sa.select(sa.func.count()).select_from(SIGN_IN_TRIES))
            if count.scalar_one() >= MAX_TRIES:
                raise RefusedError("too many people are signing in; try again in a few minutes")
            connection.execute(sa.insert(SIGN_IN_TRIES).values(row))
        return secret

    def use_try(self, secret: str, now: datetime) -> str:
        """Use a sign-in and return the page to go to; refuse a second use."""
        mine = SIGN_IN_TRIES.c.hash == hash_secret(secret)
        with self._database.writing() as connection:
            row = connection.execute(sa.select(SIGN_IN_TRIES).where(mine)).first()
            connection.execute(sa.delete(SIGN_IN_TRIES).where(mine))
        if row is None or row.expires_s <= to_seconds(now):
            raise NotAllowedError("this sign-in was already used or took too long; start again")
        return str(row.back_to)

    def person(self, issuer: str, subject: str) -> str | None:
        """Return the name of a person; refuse a closed account."""
        query = (
            sa.select(IDENTITIES.c.person, PEOPLE.c.is_closed)
            .join(PEOPLE, PEOPLE.c.name == IDENTITIES.c.person)
            .where(IDENTITIES.c.issuer == issuer, IDENTITIES.c.subject == subject)
        )
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        if row is None:
            return None
        if row.is_closed:
            raise NotAllowedError(f"the account of {row.person} is closed")
        return str(row.person)

    def add(self, issuer: str, subject: str, name: str, now: datetime) -> None:
        """Add an account; a name that is taken is refused."""
        check_name(name)
        with self._database.writing() as connection:
            mine = (IDENTITIES.c.issuer == issuer, IDENTITIES.c.subject == subject)
            if connection.execute(sa.select(IDENTITIES.c.person).where(*mine)).first() is not None:
                # Two sign-ins of the same new person at once: the first made the account.
                return
            known = sa.select(PEOPLE.c.name).where(PEOPLE.c.name == name)
            if connection.execute(known).first() is not None:
                raise NotAllowedError(f"{name} is already the name of another person")
            person = {
                "name": name,
                "password": None,
                "is_closed": False,
                "added_s": to_seconds(now),
            }
            connection.execute(sa.insert(PEOPLE).values(person))
            row = {"issuer": issuer, "subject": subject, "person": name, "added_s": to_seconds(now)}
            connection.execute(sa.insert(IDENTITIES).values(row))

    def people(self) -> frozenset[str]:
        """Return everyone who signs in through a provider."""
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(IDENTITIES.c.person)).all()
        return frozenset(row.person for row in rows)
