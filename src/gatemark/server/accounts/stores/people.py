"""People, links, sessions and tokens in a database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import sqlalchemy as sa

from gatemark.core.errors import RefusedError, UsageError
from gatemark.ledger.database import Database
from gatemark.server.accounts.nouns import (
    TOKEN_PREFIX,
    Person,
    Scope,
    SecretKey,
    SessionClaims,
    Token,
    check_name,
    from_seconds,
    hash_password,
    hash_secret,
    is_password,
    is_same_hash,
    make_id,
    make_secret,
    to_seconds,
)
from gatemark.server.accounts.stores.tables import JOIN_LINKS, PEOPLE, SESSIONS, TOKENS

SESSION_HOURS: Final = 12
LINK_HOURS: Final = 24
MAX_TOKEN_DAYS: Final = 365
MAX_TOKENS: Final = 50
BAD_LINK: Final = "this link was used before, has expired, or is not for you"


class SqlPeople:
    """The accounts of a store; ``key`` binds what lets people in, see SecretKey."""

    def __init__(self, database: Database, key: SecretKey) -> None:
        self._database = database
        self._key = key

    def all(self) -> tuple[Person, ...]:
        """Return everyone, by name."""
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(PEOPLE).order_by(PEOPLE.c.name)).all()
        return tuple(
            Person(row.name, row.is_closed, row.password is not None, from_seconds(row.added_s))
            for row in rows
        )

    def add(self, name: str, now: datetime) -> None:
        """Add an account without a password; a link lets the person set one."""
        check_name(name)
        with self._database.writing() as connection:
            known = sa.select(PEOPLE.c.name).where(PEOPLE.c.name == name)
            if connection.execute(known).first() is not None:
                raise RefusedError(f"{name} already has an account")
            row = {"name": name, "password": None, "is_closed": False, "added_s": to_seconds(now)}
            connection.execute(sa.insert(PEOPLE).values(row))

    def close(self, name: str) -> bool:
        """Close an account and end its sessions and tokens; False if it was closed already."""
        with self._database.writing() as connection:
            open_ = sa.and_(PEOPLE.c.name == name, PEOPLE.c.is_closed.is_(False))
            changed = connection.execute(sa.update(PEOPLE).where(open_).values(is_closed=True))
            connection.execute(sa.delete(SESSIONS).where(SESSIONS.c.person == name))
            connection.execute(sa.delete(JOIN_LINKS).where(JOIN_LINKS.c.person == name))
            return changed.rowcount > 0

    def new_link(self, person: str | None, now: datetime) -> str:
        """Return the secret of a link that works once; earlier links of the account become invalid.

        Without a person it is the link of the first admin, who chooses a name.
        """
        expires_s = to_seconds(now + timedelta(hours=LINK_HOURS))
        secret = self._key.seal(SessionClaims("link", person, "", expires_s, make_secret()))
        row = {"hash": hash_secret(secret), "person": person, "expires_s": expires_s}
        with self._database.writing() as connection:
            is_same = (
                JOIN_LINKS.c.person.is_(None) if person is None else JOIN_LINKS.c.person == person
            )
            connection.execute(sa.delete(JOIN_LINKS).where(is_same))
            connection.execute(sa.insert(JOIN_LINKS).values(row))
        return secret

    def link(self, secret: str, now: datetime) -> tuple[str | None] | None:
        """Return the person a link is for, in a tuple; None if the link is not valid."""
        claims = self._key.open(secret, "link")
        if claims is None or claims.expires_s <= to_seconds(now):
            return None
        query = sa.select(JOIN_LINKS).where(JOIN_LINKS.c.hash == hash_secret(secret))
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        return None if row is None or row.person != claims.person else (row.person,)

    def use_link(self, secret: str, name: str, password: str, now: datetime) -> None:
        """Set a password with a link, in one transaction; earlier sessions and tokens end."""
        check_name(name)
        kept = self._key.bind_password(name, hash_password(password))
        claims = self._key.open(secret, "link")
        if (
            claims is None
            or claims.person not in (None, name)
            or claims.expires_s <= to_seconds(now)
        ):
            raise RefusedError(BAD_LINK)
        with self._database.writing() as connection:
            known = sa.select(PEOPLE.c.is_closed).where(PEOPLE.c.name == name)
            account = connection.execute(known).first()
            # The link of the first admin makes an account; it never opens one that is there.
            if account is not None and claims.person is None:
                raise RefusedError(BAD_LINK)
            same = JOIN_LINKS.c.person == name
            fitting = same if claims.person is not None else JOIN_LINKS.c.person.is_(None)
            used = connection.execute(
                sa.delete(JOIN_LINKS)
                .where(JOIN_LINKS.c.hash == hash_secret(secret), fitting)
                .where(JOIN_LINKS.c.expires_s > to_seconds(now))
            )
            if used.rowcount != 1 or (account is not None and account.is_closed):
                raise RefusedError(BAD_LINK)
            if account is not None:
                mine = PEOPLE.c.name == name
                connection.execute(sa.update(PEOPLE).where(mine).values(password=kept))
            else:
                row = {
                    "name": name,
                    "password": kept,
                    "is_closed": False,
                    "added_s": to_seconds(now),
                }
                connection.execute(sa.insert(PEOPLE).values(row))
            connection.execute(sa.delete(SESSIONS).where(SESSIONS.c.person == name))
            # Whoever had the old password may have made tokens with it.
            live = sa.and_(TOKENS.c.person == name, TOKENS.c.revoked_s.is_(None))
            connection.execute(sa.update(TOKENS).where(live).values(revoked_s=to_seconds(now)))

    def is_known(self, name: str, password: str) -> bool:
        """Whether name and password match; an unknown name takes as long."""
        query = sa.select(PEOPLE.c.password).where(
            PEOPLE.c.name == name, PEOPLE.c.is_closed.is_(False)
        )
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        stored = None if row is None else row.password
        return is_password(self._key.password_of(name, stored), password)

    def new_session(self, person: str, authentication: str, now: datetime) -> str:
        """Return the secret of a new session, signed; expired ones are deleted.

        ``authentication`` says what vouches for the person, and is recorded with what they decide.
        """
        expires_s = to_seconds(now + timedelta(hours=SESSION_HOURS))
        claims = SessionClaims("session", person, authentication, expires_s, make_secret())
        secret = self._key.seal(claims)
        row = {
            "hash": hash_secret(secret),
            "person": person,
            "started_s": to_seconds(now),
            "expires_s": expires_s,
        }
        with self._database.adding() as connection:
            connection.execute(sa.delete(SESSIONS).where(SESSIONS.c.expires_s <= to_seconds(now)))
            connection.execute(sa.insert(SESSIONS).values(row))
        return secret

    def session(self, secret: str, now: datetime) -> SessionClaims | None:
        """Return what a valid session says: it is signed, and was not ended."""
        claims = self._key.open(secret, "session")
        if claims is None or claims.expires_s <= to_seconds(now):
            return None
        query = (
            sa.select(SESSIONS.c.person)
            .join(PEOPLE, PEOPLE.c.name == SESSIONS.c.person)
            .where(SESSIONS.c.hash == hash_secret(secret), PEOPLE.c.is_closed.is_(False))
        )
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        return None if row is None or row.person != claims.person else claims

    def end_session(self, secret: str) -> None:
        """Sign out."""
        with self._database.adding() as connection:
            ended = SESSIONS.c.hash == hash_secret(secret)
            connection.execute(sa.delete(SESSIONS).where(ended))

    def new_token(
        self, person: str, label: str, scopes: Sequence[Scope], days: int, now: datetime
    ) -> tuple[Token, str]:
        """Return a new token and its secret, which is not stored."""
        if not scopes or not label.strip() or len(label) > 100:
            raise UsageError("a token needs a label of up to 100 characters and a scope")
        if not 1 <= days <= MAX_TOKEN_DAYS:
            raise UsageError(f"a token must expire in 1 to {MAX_TOKEN_DAYS} days, got {days}")
        live = [token for token in self.tokens(person) if token.revoked_at is None]
        if len(live) >= MAX_TOKENS:
            raise RefusedError(f"{person} already has {len(live)} tokens; revoke one first")
        identity, secret = make_id(), make_secret()
        scope_text, expires_s = (
            " ".join(sorted(set(scopes))),
            to_seconds(now + timedelta(days=days)),
        )
        row = {
            "id": identity,
            "hash": self._key.bind_token(
                identity, person, scope_text, expires_s, hash_secret(secret)
            ),
            "person": person,
            "label": label,
            "scopes": scope_text,
            "made_s": to_seconds(now),
            "expires_s": expires_s,
            "revoked_s": None,
        }
        with self._database.adding() as connection:
            connection.execute(sa.insert(TOKENS).values(row))
        made = next(token for token in self.tokens(person) if token.id == identity)
        return made, f"{TOKEN_PREFIX}{identity}_{secret}"

    def tokens(self, person: str | None = None) -> tuple[Token, ...]:
        """Return the tokens of one person, or of everyone."""
        query = sa.select(TOKENS).order_by(TOKENS.c.made_s.desc(), TOKENS.c.id)
        if person is not None:
            query = query.where(TOKENS.c.person == person)
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        return tuple(_make_token(row) for row in rows)

    def revoke_token(self, identity: str, person: str | None, now: datetime) -> Token | None:
        """Revoke a token; with a person, only one of theirs. None if there is no such token."""
        wanted = sa.and_(TOKENS.c.id == identity)
        if person is not None:
            wanted = sa.and_(wanted, TOKENS.c.person == person)
        with self._database.adding() as connection:
            ended = sa.update(TOKENS).where(wanted, TOKENS.c.revoked_s.is_(None))
            connection.execute(ended.values(revoked_s=to_seconds(now)))
            row = connection.execute(sa.select(TOKENS).where(wanted)).first()
        return None if row is None else _make_token(row)

    def token_holder(self, text: str, now: datetime) -> Token | None:
        """Return the valid token with a secret, if there is one."""
        head, _, secret = text.removeprefix(TOKEN_PREFIX).partition("_")
        if not text.startswith(TOKEN_PREFIX) or not secret:
            return None
        query = (
            sa.select(TOKENS)
            .join(PEOPLE, PEOPLE.c.name == TOKENS.c.person)
            .where(TOKENS.c.id == head, PEOPLE.c.is_closed.is_(False))
        )
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        if row is None:
            return None
        bound = self._key.bind_token(
            row.id, row.person, row.scopes, row.expires_s, hash_secret(secret)
        )
        if not is_same_hash(row.hash, bound):
            return None
        is_live = row.revoked_s is None and row.expires_s > to_seconds(now)
        return _make_token(row) if is_live else None


def _make_token(row: sa.Row[tuple[object, ...]]) -> Token:
    found = row._mapping  # noqa: SLF001 - the documented way to columns by name
    return Token(
        id=found["id"],
        person=found["person"],
        label=found["label"],
        scopes=tuple(found["scopes"].split()),
        made_at=from_seconds(found["made_s"]),
        expires_at=from_seconds(found["expires_s"]),
        revoked_at=None if found["revoked_s"] is None else from_seconds(found["revoked_s"]),
    )
