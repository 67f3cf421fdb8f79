"""How the command line knows the server of this machine by its certificate, whoever has signed it. Knows no HTTP."""

from __future__ import annotations

import ssl
from pathlib import Path

from server.errors import ConfigError

_END = "-----END CERTIFICATE-----"


def trusting(certificate: Path) -> ssl.SSLContext:
    """A context that takes exactly this certificate, and no other. Raises `ConfigError` when it cannot be read.

    Its name is not looked at: whoever has its key is the server.
    """
    try:
        first = certificate.read_text(encoding="ascii", errors="replace").partition(_END)[0] + _END
        context = ssl.create_default_context(cadata=first)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"The running server's certificate {certificate} cannot be read ({error}).",
            hint="Start the server again; it is made anew, or found where --tls-cert says.",
        ) from None
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
