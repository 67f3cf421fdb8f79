"""The certificate with which `serve --tls` is spoken to: made here for this machine's names, or one's own.

Made once and kept, renewed a month before it ends or when the machine has an address that is not in it; the key stays
the same. Nobody has signed it but itself, so people compare its fingerprint. Knows files and X.509, no sockets.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from server.commands.address import lan_addresses
from server.config import Settings
from server.errors import ConfigError, StorageError

FOLDER = "tls"
LIFETIME = dt.timedelta(days=397)
"""Longer ones are refused by some browsers."""
RENEW_BEFORE = dt.timedelta(days=30)
_CLOCKS_DIFFER = dt.timedelta(days=1)
_MOST_NAMES = 64


@dataclass(frozen=True, slots=True)
class Identity:
    """What the server shows of itself, and proves with its key. `own`: it was given, not made here."""

    certificate: Path
    key: Path
    fingerprint: str
    """SHA-256 of the certificate as browsers show it: AA:BB:…"""
    ends_at: dt.datetime
    own: bool = False


def identity_of(settings: Settings, now: dt.datetime) -> Identity | None:
    """The server's, made if need be; None: it speaks plain HTTP. Raises `ConfigError`, `StorageError`."""
    if settings.tls_cert is not None and settings.tls_key is not None:
        return own_identity(settings.tls_cert, settings.tls_key)
    return local_identity(settings.data_dir, names_of(settings.host), now) if settings.tls else None


def own_identity(certificate: Path, key: Path) -> Identity:
    """One's own. Raises `ConfigError` when it is none, or the key is another one's."""
    read = _read_certificate(certificate)
    try:
        public = serialization.load_pem_private_key(key.read_bytes(), password=None).public_key()
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{key} cannot be used as a key: {_reason(error)}.", hint="It must be a PEM file without a password."
        ) from None
    if public != read.public_key():
        raise ConfigError(f"{key} is not the key of {certificate}.", hint="Give the two files that belong together.")
    return _identity(certificate, key, read, own=True)


def local_identity(data_dir: Path, names: Sequence[str], now: dt.datetime) -> Identity:
    """The one in the data folder, made or renewed if need be. Raises `StorageError`."""
    folder = data_dir / FOLDER
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        there = _there(certificate)
        private = _private_key(key)
        wanted = list(dict.fromkeys([*names, *(_names_in(there) if there is not None else ())]))[:_MOST_NAMES]
        fits = (
            there is not None
            and there.public_key() == private.public_key()
            and there.not_valid_after_utc - RENEW_BEFORE > now >= there.not_valid_before_utc
            and set(names) <= set(_names_in(there))
        )
        if there is None or not fits:
            there = _make(private, wanted, now)
            _write(certificate, there.public_bytes(serialization.Encoding.PEM))
    except OSError as error:
        raise StorageError(
            f"The certificate in {folder} cannot be kept: {error.strerror or error}.",
            hint="Check the disk and the permissions of the data folder.",
        ) from None
    return _identity(certificate, key, there, own=False)


def names_of(host: str) -> tuple[str, ...]:
    """Names and addresses by which this machine may be called when it listens on `host`."""
    own = socket.gethostname().split(".")[0].lower()
    names = [own, f"{own}.local"] if own.replace("-", "").isalnum() and own.isascii() else []
    return tuple(dict.fromkeys(["localhost", "127.0.0.1", "::1", *names, *_usable(lan_addresses(host))]))


def _usable(hosts: Sequence[str]) -> list[str]:
    return [host for host in hosts if host and host.isascii() and host not in ("0.0.0.0", "::")]


def _there(path: Path) -> x509.Certificate | None:
    """What was made before; None: nothing that can be read."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def _private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        found = serialization.load_pem_private_key(path.read_bytes(), password=None)
        if isinstance(found, ec.EllipticCurvePrivateKey):
            path.chmod(0o600)
            return found
    except (FileNotFoundError, ValueError, TypeError):
        pass
    made = ec.generate_private_key(ec.SECP256R1())
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    _write(path, made.private_bytes(encoding, form, serialization.NoEncryption()))
    return made


def _make(key: ec.EllipticCurvePrivateKey, names: Sequence[str], now: dt.datetime) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "StackChan")])
    public = key.public_key()
    usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now - _CLOCKS_DIFFER + LIFETIME)
        .add_extension(x509.SubjectAlternativeName([_general_name(one) for one in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _names_in(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return (*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress)))


def _read_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} cannot be used as a certificate: {_reason(error)}.",
            hint="It must be a PEM file, the server's own certificate first.",
        ) from None


def _identity(certificate: Path, key: Path, read: x509.Certificate, *, own: bool) -> Identity:
    return Identity(certificate, key, read.fingerprint(hashes.SHA256()).hex(":").upper(), read.not_valid_after_utc, own)


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all, readable by the owner only."""
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    partial.replace(path)


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it is damaged, or something else"
