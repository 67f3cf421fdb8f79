"""${message}."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade(op: Operations) -> None:
    ${upgrades if upgrades else "pass"}
