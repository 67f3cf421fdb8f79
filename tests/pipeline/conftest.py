"""A whole server for the faults that only one can show."""

from tests.devices.conftest import serve

__all__ = ["serve"]
