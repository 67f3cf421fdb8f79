"""The whole server on a socket, as the tests of the devices start it."""

from __future__ import annotations

from tests.devices.conftest import serve as serve
