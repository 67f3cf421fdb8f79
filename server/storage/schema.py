"""What both databases' tables share: the naming of constraints, and enumerations as CHECK constraints."""

from __future__ import annotations

from typing import Any, get_args

from sqlalchemy import CheckConstraint, MetaData, Table

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}
"""Every constraint has a name, because SQLite can only change what a migration can name."""


def new_metadata() -> MetaData:
    """Empty metadata with the naming rules."""
    return MetaData(naming_convention=NAMING)


def one_of(column: str, literal: Any) -> CheckConstraint:
    """`column` holds one of the values of a `Literal` type, or NULL where the column allows it."""
    values = ", ".join(f"'{value}'" for value in get_args(literal))
    return CheckConstraint(f"{column} IN ({values})", name=column)


def table_of(row: type[Any]) -> Table:
    """The table of a row class, for statements that need no objects."""
    table: Table = row.__table__
    return table
