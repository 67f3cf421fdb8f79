"""The local certificate: made once, kept private, renewed in time; and one's own in its place."""

from __future__ import annotations

import datetime as dt
import hashlib
import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from server.commands import certificate
from server.commands.certificate import LIFETIME, RENEW_BEFORE, identity_of, local_identity, names_of, own_identity
from server.commands.trust import trusting
from server.config import load_settings
from server.errors import ConfigError, StorageError

pytestmark = pytest.mark.integration

NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
NAMES = ("localhost", "127.0.0.1", "::1", "desk.local", "192.168.1.20")


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_it_is_made_once_for_all_names_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    first = local_identity(tmp_path, NAMES, NOW)
    again = local_identity(tmp_path, NAMES, NOW + dt.timedelta(days=300))
    assert again == first
    names = read(first.certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "desk.local"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1", "192.168.1.20"]
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (first.certificate.parent, first.certificate, first.key)]
    assert modes == [0o700, 0o600, 0o600]
    # As a browser shows it: computed by another library.
    der = ssl.PEM_cert_to_DER_cert(first.certificate.read_text())
    assert first.fingerprint.replace(":", "").lower() == hashlib.sha256(der).hexdigest()
    assert len(first.fingerprint) == 95


def test_it_is_renewed_a_month_before_it_ends_with_the_same_key(tmp_path: Path) -> None:
    first = local_identity(tmp_path, NAMES, NOW)
    key = first.key.read_bytes()
    assert first.ends_at - NOW == LIFETIME - dt.timedelta(days=1)
    just_before = first.ends_at - RENEW_BEFORE - dt.timedelta(seconds=1)
    assert local_identity(tmp_path, NAMES, just_before).fingerprint == first.fingerprint
    renewed = local_identity(tmp_path, NAMES, first.ends_at - RENEW_BEFORE)
    assert renewed.fingerprint != first.fingerprint
    assert renewed.ends_at - first.ends_at > dt.timedelta(days=300)
    assert renewed.key.read_bytes() == key


def test_a_new_address_of_the_machine_is_taken_in_and_the_old_ones_stay(tmp_path: Path) -> None:
    first = local_identity(tmp_path, NAMES, NOW)
    second = local_identity(tmp_path, (*NAMES[:4], "192.168.1.77"), NOW)
    assert second.fingerprint != first.fingerprint
    assert local_identity(tmp_path, NAMES, NOW).fingerprint == second.fingerprint


@pytest.mark.parametrize("broken", ["certificate", "key", "both", "another key"])
def test_what_is_damaged_is_made_anew(tmp_path: Path, broken: str) -> None:
    first = local_identity(tmp_path / "a", NAMES, NOW)
    if broken == "another key":
        first.key.write_bytes(local_identity(tmp_path / "b", NAMES, NOW).key.read_bytes())
    else:
        for path in (first.certificate, first.key):
            if broken in ("both", path.stem):
                path.write_text("…")
    second = local_identity(tmp_path / "a", NAMES, NOW)
    assert own_identity(second.certificate, second.key).fingerprint == second.fingerprint
    assert local_identity(tmp_path / "a", NAMES, NOW) == second


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "tls").write_text("a file")
    with pytest.raises(StorageError):
        local_identity(tmp_path, NAMES, NOW)


def test_ones_own_needs_its_own_key(tmp_path: Path) -> None:
    one, other = local_identity(tmp_path / "a", NAMES, NOW), local_identity(tmp_path / "b", NAMES, NOW)
    settings = load_settings(data_dir=tmp_path, tls_cert=one.certificate, tls_key=one.key, env={})
    own = identity_of(settings, NOW)
    assert own is not None
    assert (own.own, own.fingerprint) == (True, one.fingerprint)
    with pytest.raises(ConfigError, match="not the key"):
        own_identity(one.certificate, other.key)
    for shown, key in ((one.key, one.key), (one.certificate, one.certificate), (tmp_path / "no", one.key)):
        with pytest.raises(ConfigError):
            own_identity(shown, key)
    locked = tmp_path / "locked.pem"
    private = serialization.load_pem_private_key(one.key.read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(b"secret")
    form = serialization.PrivateFormat.PKCS8
    locked.write_bytes(private.private_bytes(serialization.Encoding.PEM, form, encryption))
    with pytest.raises(ConfigError, match="without a password") as raised:
        own_identity(one.certificate, locked)
    assert "locked.pem" in str(raised.value)


def test_a_certificate_without_a_key_is_wrong_and_without_tls_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="belong together"):
        load_settings(data_dir=tmp_path, tls_cert=tmp_path / "a", env={})
    assert identity_of(load_settings(data_dir=tmp_path, env={}), NOW) is None
    assert not (tmp_path / "tls").exists()


def test_the_names_are_those_by_which_the_machine_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(names_of("127.0.0.1")) >= {"localhost", "127.0.0.1", "::1"}
    assert "robot.example" in names_of("robot.example")
    monkeypatch.setattr(certificate, "lan_addresses", lambda host: ["192.168.1.20", "0.0.0.0"])
    assert "192.168.1.20" in names_of("0.0.0.0")
    assert not {"0.0.0.0", "::"} & set(names_of("0.0.0.0"))


def test_what_is_no_certificate_is_not_trusted(tmp_path: Path) -> None:
    file = tmp_path / "certificate.pem"
    for content in (None, "", "-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n"):
        if content is not None:
            file.write_text(content)
        with pytest.raises(ConfigError):
            trusting(file)
