"""The folder of authorities: OpenSSL finds in it whom it is asked about, and nobody else."""

import ssl
from pathlib import Path

import pytest

from vcsync.apiserver.tenants import pki
from vcsync.apiserver.tenants.authorities import AuthorityFolder, file_name

NOW = 1_800_000_000.0


@pytest.fixture(scope="module")
def made():
    return {
        name: pki.new_authority(f"0123456789ab-{name}", NOW) for name in ("acme", "b", "long-" + "x" * 58)
    }


@pytest.fixture
def folder(tmp_path):
    return AuthorityFolder(tmp_path / "authorities")


def pem(authority) -> bytes:
    return authority.certificate.encode()


def shakes_hands(folder: AuthorityFolder, authority, tmp_path: Path) -> bool:
    """Whether a server that trusts the folder lets a client of an authority in."""
    serving = pki.issue_serving(authority, ["localhost"], NOW)
    client = pki.issue_client(authority, "u", ["g"], NOW)
    for name, pair in (("serving", serving), ("client", client)):
        (tmp_path / f"{name}.crt").write_text(pair.certificate)
        (tmp_path / f"{name}.key").write_text(pair.key)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "serving.crt", tmp_path / "serving.key")
    server.verify_mode = ssl.CERT_OPTIONAL
    server.load_verify_locations(capath=folder.path)
    # The certificates are of a later day than the tests.
    server.verify_flags |= 0x200000  # X509_V_FLAG_NO_CHECK_TIME
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname = False
    asking.verify_mode = ssl.CERT_NONE
    asking.load_cert_chain(tmp_path / "client.crt", tmp_path / "client.key")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        server.wrap_bio(to_server, to_client, server_side=True),
        asking.wrap_bio(to_client, to_server),
    ]
    for _ in range(6):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return False
    return ends[0].getpeercert(binary_form=True) is not None


def test_clients_of_those_in_it_are_let_in_and_no_others(made, folder, tmp_path):
    folder.fill(map(pem, made.values()))
    stranger = pki.new_authority("0123456789ab-acme", NOW)
    assert [shakes_hands(folder, each, tmp_path) for each in made.values()] == [True] * len(made)
    assert not shakes_hands(folder, stranger, tmp_path)
    assert not shakes_hands(folder, pki.new_authority("0123456789ab-other", NOW), tmp_path)


def test_one_more_is_found_and_one_left_out_is_not(made, folder, tmp_path):
    folder.add(pem(made["b"]))
    assert shakes_hands(folder, made["b"], tmp_path)
    folder.fill([pem(made["acme"])])
    assert not shakes_hands(folder, made["b"], tmp_path)


def test_filling_repairs_what_is_missing_cut_off_or_too_much(made, folder):
    wanted = [pem(each) for each in made.values()]
    folder.fill(wanted)
    (folder.path / file_name(wanted[0])).write_bytes(b"-----BEGIN CERT")
    (folder.path / file_name(wanted[1])).unlink()
    (folder.path / "left.0").write_bytes(b"")
    folder.fill(wanted)
    assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == {
        file_name(each): each for each in wanted
    }


def test_those_of_one_hash_share_a_file(folder, tmp_path):
    """Names with one hash cannot be had cheaply; two authorities of one name have it too."""
    twins = [pki.new_authority("0123456789ab-twin", NOW) for _ in range(2)]
    for each in (*twins, *twins):
        folder.add(pem(each))
    assert all(shakes_hands(folder, each, tmp_path) for each in twins)
    added = [path.read_bytes() for path in folder.path.iterdir()]
    folder.fill(map(pem, twins))
    assert [path.read_bytes() for path in folder.path.iterdir()] == added == [b"".join(map(pem, twins))]


def test_files_are_their_owners_only(made, folder):
    folder.add(pem(made["acme"]))
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in folder.path.iterdir()] == [0o600]
