"""Client certificates that the attacker makes: by its own tenant's authority, by others', by itself."""

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hack.attacks.client import Answer, Door
from hack.attacks.judge import hint, problem
from hack.attacks.world import ATTACKER, VICTIM, World, trusting

pytestmark = pytest.mark.filterwarnings("ignore:Attribute's length must be")

REFUSED = frozenset({0, 401})
"""0: the handshake fails."""
LOWLY = frozenset({0, 401, 403})
DAY = datetime.timedelta(days=1)
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True)
class Authority:
    """A certificate authority: a tenant's, or an invented one."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


class Mint:
    """Makes certificates, by default with the attacker's own authority."""

    def __init__(self, world: World) -> None:
        self.trusted = (world.plane.data / "ca.crt").read_text()
        self.own, self.victims = authority(world, ATTACKER), authority(world, VICTIM)
        self.forged = replace(self.own, key=ec.generate_private_key(ec.SECP256R1()))

    def pem(
        self,
        name: Sequence[tuple[x509.ObjectIdentifier, str]] = ((NameOID.COMMON_NAME, "mallory"),),
        *,
        by: Authority | None = None,
        identifier: x509.AuthorityKeyIdentifier | None = None,
        begins: datetime.timedelta = -DAY,
        ends: datetime.timedelta = DAY,
        usage: Sequence[x509.ObjectIdentifier] | None = (ExtendedKeyUsageOID.CLIENT_AUTH,),
        key: Key | None = None,
        is_authority: bool = False,
        algorithm: hashes.SHA256 | hashes.SHA384 | None = None,
    ) -> bytes:
        """A certificate and its key."""
        by = by or self.own
        key = key or ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(oid, text, _validate=False) for oid, text in name]))
            .issuer_name(by.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begins)
            .not_valid_after(now + ends)
            .add_extension(identifier or key_identifier(by.certificate), critical=False)
        )
        if usage is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        if is_authority:
            builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        signed = builder.sign(by.key, algorithm or hashes.SHA256())
        return signed.public_bytes(Encoding.PEM) + written(key)

    def door(self, world: World, pem: bytes) -> Door:
        """Return a client with such a certificate."""
        return Door(world.plane.port, trusting(self.trusted, pem))


def authority(world: World, tenant: str) -> Authority:
    files = world.operator.ask("GET", f"/vcsync/v1/tenants/{tenant}/export").json["files"]
    key = load_pem_private_key(files["ca.key"].encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return Authority(x509.load_pem_x509_certificate(files["ca.crt"].encode()), key)


def written(key: Key) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def key_identifier(certificate: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    found = certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(found.value)


def named(*names: str, groups: Sequence[str] = ()) -> list[tuple[x509.ObjectIdentifier, str]]:
    found = [(NameOID.ORGANIZATION_NAME, each) for each in groups]
    return [*found, *((NameOID.COMMON_NAME, each) for each in names)]


def own_authority(mint: Mint) -> bytes:
    return mint.own.certificate.public_bytes(Encoding.PEM) + written(mint.own.key)


def below_another(mint: Mint) -> bytes:
    """Return a certificate of an intermediate authority, with the chain."""
    key = ec.generate_private_key(ec.SECP256R1())
    chain = mint.pem(named("between"), key=key, is_authority=True)
    between = Authority(x509.load_pem_x509_certificate(chain), key)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    leaf = mint.pem(named("admin", groups=["system:masters"]), by=between, identifier=identifier)
    first, mark, rest = leaf.partition(b"-----END CERTIFICATE-----\n")
    return first + mark + chain.partition(mark)[0] + mark + rest


def of_the_victim(mint: Mint, **changed: bytes) -> x509.AuthorityKeyIdentifier:
    found = key_identifier(mint.victims.certificate)
    return x509.AuthorityKeyIdentifier(changed.get("key_identifier", found.key_identifier), None, None)


def someone_else(mint: Mint) -> Authority:
    return replace(mint.victims, key=mint.forged.key)


WORTHLESS: dict[str, Callable[[Mint], bytes]] = {
    "by a made-up authority of the own name": lambda m: m.pem(by=m.forged),
    "by a made-up authority of the victim's name": lambda m: m.pem(named("admin"), by=someone_else(m)),
    "by the own authority, in the victim's name": lambda m: m.pem(
        named("admin", groups=["vcsync:tenant-admins"]), identifier=of_the_victim(m)
    ),
    "by the own authority, as if the victim's had issued it": lambda m: m.pem(
        named("admin"), by=Authority(m.victims.certificate, m.own.key)
    ),
    "for servers": lambda m: m.pem(usage=[ExtendedKeyUsageOID.SERVER_AUTH]),
    "for signing code": lambda m: m.pem(usage=[ExtendedKeyUsageOID.CODE_SIGNING]),
    "without a name": lambda m: m.pem([]),
    "with an empty name": lambda m: m.pem(named("")),
    "with groups only": lambda m: m.pem(named(groups=["system:masters"])),
    "without the key of its authority": lambda m: m.pem(
        identifier=x509.AuthorityKeyIdentifier(None, [x509.DNSName("x")], 1)
    ),
    "of a key identifier of nobody": lambda m: m.pem(
        identifier=x509.AuthorityKeyIdentifier(b"\0" * 20, None, None)
    ),
    "ended": lambda m: m.pem(begins=-2 * DAY, ends=-DAY),
    "ended an hour ago": lambda m: m.pem(ends=-DAY / 24),
    "not begun": lambda m: m.pem(begins=DAY, ends=2 * DAY),
    "begins in an hour": lambda m: m.pem(begins=DAY / 24),
    "by an authority below the own one": below_another,
    "of many kilobytes": lambda m: m.pem(
        named("mallory", groups=[f"{n:04}" + "g" * 60 for n in range(1000)])
    ),
}
SELF_MADE: dict[str, list[tuple[x509.ObjectIdentifier, str]]] = {
    "a superuser": named("admin", groups=["system:masters"]),
    "the operator": named("system:admin", groups=["system:masters", "vcsync:operators"]),
    "the API server": named("system:apiserver", groups=["system:masters"]),
    "a syncer": named("system:vcsync:syncer", groups=["system:vcsync"]),
    "two names": named("mallory", "system:admin", groups=["system:masters"]),
    "a superuser by case": named("admin", groups=["System:Masters", "SYSTEM:MASTERS"]),
    "a superuser with a space": named("admin", groups=["system:masters ", " system:masters", "system:masters\0"]),
    "somebody of another tenant": named(f"{VICTIM}:admin", groups=[VICTIM, f"tenant:{VICTIM}"]),
    "a path": named("../../tenants/victim/admin"),
    "a line feed": named("admin\r\nX-Remote-User: root"),
    "an account of the system": named("system:serviceaccount:kube-system:admin", groups=["system:serviceaccounts"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def mint(world: World) -> Mint:
    return Mint(world)


def test_a_valid_certificate_of_the_mint_is_accepted(world: World, mint: Mint) -> None:
    assert mint.door(world, mint.pem()).ask("GET", "/api").status == 200


@pytest.mark.parametrize("what", WORTHLESS)
def test_an_invalid_certificate_is_refused(world: World, mint: Mint, what: str) -> None:
    door = mint.door(world, WORTHLESS[what](mint))
    for path in ("/api", "/version", "/vcsync/v1/tenants"):
        assert problem(door.ask("GET", path), REFUSED) == ""
    assert hint(lambda tenant: door.ask("GET", f"/tenants/{tenant}/api/v1/secrets"), REFUSED) == ""


def test_the_certificate_of_an_authority_is_not_a_users(world: World, mint: Mint) -> None:
    door = mint.door(world, own_authority(mint))
    assert hint(lambda tenant: door.ask("GET", f"/tenants/{tenant}/api/v1/secrets"), LOWLY) == ""
    assert problem(door.ask("GET", "/api/v1/secrets"), LOWLY) == ""


@pytest.mark.parametrize("what", SELF_MADE)
def test_every_user_of_a_tenants_authority_belongs_to_that_tenant(
    world: World, mint: Mint, what: str
) -> None:
    door = mint.door(world, mint.pem(SELF_MADE[what]))

    def attack(tenant: str) -> Answer:
        return door.ask("GET", f"/tenants/{tenant}/api/v1/secrets")

    assert hint(attack, LOWLY) == ""
    for path in ("/vcsync/v1/tenants", "/tenants/all/api/v1/secrets", "/tenants/system/api/v1/secrets"):
        assert problem(door.ask("GET", path), LOWLY) == ""


@pytest.mark.parametrize("what", SELF_MADE)
def test_a_group_in_a_certificate_does_not_make_a_superuser(world: World, mint: Mint, what: str) -> None:
    door = mint.door(world, mint.pem(SELF_MADE[what]))
    for path in ("/api/v1/secrets", "/apis/rbac.authorization.k8s.io/v1/clusterroles"):
        assert problem(door.ask("GET", path), LOWLY) == ""


def test_an_invalid_certificate_does_not_affect_a_token_nor_a_token_a_certificate(
    world: World, mint: Mint
) -> None:
    door = mint.door(world, mint.pem(usage=[ExtendedKeyUsageOID.SERVER_AUTH]))
    for token in ("x", "a.b.c", ""):
        assert problem(replace(door, token=token).ask("GET", "/api"), REFUSED) == ""


def test_a_key_of_another_type_gives_no_access_to_other_tenants(world: World, mint: Mint) -> None:
    door = mint.door(world, mint.pem(named("other"), key=rsa.generate_private_key(65537, 2048)))
    assert problem(door.ask("GET", f"/tenants/{VICTIM}/api"), LOWLY) == ""
