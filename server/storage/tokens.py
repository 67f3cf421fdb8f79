"""Queries on tokens. Only a hash is stored, so that a copied database opens no door.

Plain SHA-256 is enough: a generated token has 256 random bits, so there is nothing to guess, and salting or slow
hashing, made for passwords, would only slow every request.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import secrets

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession
from ulid import ULID

from server.storage.records import Token, record
from server.storage.server_tables import TokenKind, TokenRow

TOKEN_BYTES = 32


async def create_token(db: AsyncSession, *, kind: TokenKind, now: dt.datetime, device_id: str | None = None) -> str:
    """Make and store a token; the text returned is the only copy. A device's token needs its `device_id`."""
    if (kind == "device") != (device_id is not None):
        raise ValueError("a device's token needs a device_id, and only that")
    token = secrets.token_urlsafe(TOKEN_BYTES)
    db.add(TokenRow(token_id=str(ULID()), token_hash=_hash(token), kind=kind, device_id=device_id, created_at=now))
    await db.flush()
    return token


async def find_token(db: AsyncSession, token: str) -> Token | None:
    """The stored token with this text, unless there is none or it is revoked."""
    wanted = _hash(token)
    # Looked up by hash: the time of an index search tells of hash prefixes, which a caller cannot steer.
    row = (await db.exec(select(TokenRow).where(TokenRow.token_hash == wanted))).first()
    if row is None or row.revoked_at is not None or not hmac.compare_digest(row.token_hash, wanted):
        return None
    return record(Token, row)


async def has_owner_token(db: AsyncSession) -> bool:
    """Is there an owner's token that is not revoked?"""
    wanted = select(TokenRow.token_id).where(TokenRow.kind == "owner", col(TokenRow.revoked_at).is_(None))
    return (await db.exec(wanted.limit(1))).first() is not None


async def revoke_owner_tokens(db: AsyncSession, *, now: dt.datetime) -> int:
    """End every owner's token; how many there were. Devices keep theirs."""
    rows = (await db.exec(select(TokenRow).where(TokenRow.kind == "owner", col(TokenRow.revoked_at).is_(None)))).all()
    for row in rows:
        row.revoked_at = now
        db.add(row)
    await db.flush()
    return len(rows)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
