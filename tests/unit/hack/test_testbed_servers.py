"""Command lines, configuration files and certificates of the test bed, checked without a server."""

import base64
import datetime
import ipaddress
import json
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from hack.testbed import faults, servers
from hack.testbed.bed import tenant_names
from hack.testbed.files import write_files
from hack.testbed.pki import Authority, signing_key
from hack.testbed.plan import COMPONENTS, MAX_CLUSTERS, NodeShape, Plan, Role

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def plan(index: int = 0, folder: Path = Path("/bed/r1"), role: Role = "super") -> Plan:
    return Plan("r1", role, index, folder, 6443, 10250, "http://127.0.0.1:2379", "secret-token")


def test_ranges_of_clusters_do_not_overlap() -> None:
    plans = [plan(index) for index in range(MAX_CLUSTERS)]
    networks = [ipaddress.ip_network(cidr) for p in plans for cidr in (p.service_cidr, p.pod_cidr)]
    assert len(set(networks)) == 2 * MAX_CLUSTERS
    assert len({p.advertised_address for p in plans}) == MAX_CLUSTERS


def test_a_dual_stack_cluster_has_a_range_of_each_family_of_its_own() -> None:
    texts = [replace(plan(index), dual_stack=True).service_cidrs for index in range(MAX_CLUSTERS)]
    networks = [[ipaddress.ip_network(cidr) for cidr in text.split(",")] for text in texts]
    assert all([each.version for each in pair] == [4, 6] for pair in networks)
    assert len({pair[1] for pair in networks}) == MAX_CLUSTERS
    assert plan(3).service_cidrs == plan(3).service_cidr


@pytest.mark.parametrize(
    ("role", "path", "ours", "components", "manager"),
    [
        (
            "super",
            "",
            False,
            ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"),
            "kube-controller-manager",
        ),
        (
            "super",
            "/tenants/r1",
            False,
            ("kube-controller-manager", "kube-scheduler", "kwok"),
            "kube-controller-manager",
        ),
        ("super", "/tenants/r1", True, ("hollow",), "controllers"),
        ("tenant", "/tenants/r1", False, ("kube-controller-manager",), "kube-controller-manager"),
        ("tenant", "/tenants/r1", True, (), "controllers"),
        ("meta", "/tenants/r1", True, (), "controllers"),
    ],
)
def test_the_processes_of_a_cluster(
    role: Role, path: str, ours: bool, components: tuple[str, ...], manager: str
) -> None:
    made = replace(plan(role=role), path=path, ours=ours)
    assert made.components == components
    assert made.program("kube-controller-manager") == manager
    assert made.program("kube-apiserver") == ("controlplane" if path else "kube-apiserver")
    assert made.program("kwok") == ("hollow" if ours else "kwok")


def test_a_cluster_can_be_without_some_controllers() -> None:
    made = replace(plan(role="tenant"), without_controllers=("node-lifecycle-controller",))

    [flag] = [each for each in servers.controller_manager(made) if each.startswith("--controllers=")]
    assert flag.startswith("--controllers=*,")
    assert flag.endswith(",-node-lifecycle-controller")


def test_super_clusters_have_a_separate_embedded_control_plane() -> None:
    planes = {role: plan(role=role).plane for role in COMPONENTS}
    assert planes["meta"] == planes["tenant"] != planes["super"]


@given(st.integers(0, 4999), st.integers(0, 4999))
def test_hollow_nodes_have_distinct_addresses(one: int, other: int) -> None:
    def address(position: int) -> str:
        node = servers.node(plan(), position, NodeShape(), "v1.36.3")
        return str(node["status"]["addresses"][0]["address"])

    assert (address(one) == address(other)) is (one == other)
    assert ipaddress.ip_address(address(one)) in ipaddress.ip_network("172.16.0.0/12")


def test_a_kubeconfig_embeds_its_credentials() -> None:
    config = json.loads(servers.kubeconfig(plan(), "CA", token="t", url="https://127.0.0.1:1"))
    cluster = config["clusters"][0]["cluster"]
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"CA"
    assert cluster["server"] == "https://127.0.0.1:1"
    assert config["users"][0]["user"] == {"token": "t"}
    assert config["current-context"] == config["contexts"][0]["name"] == "r1"


def test_only_the_owner_can_read_the_admins_secrets(tmp_path: Path) -> None:
    made = plan(folder=tmp_path / "r1")
    for _ in range(2):  # a second start in the same folder replaces them
        write_files(made, tmp_path / "r1.kubeconfig")
    files = [tmp_path / "r1.kubeconfig", *(tmp_path / "r1").iterdir()]
    assert len(files) > 15
    assert {file.stat().st_mode & 0o077 for file in files} == {0}
    relative = json.loads((tmp_path / "r1" / "admin.kubeconfig").read_text())["users"][0]["user"]
    assert {(tmp_path / "r1" / name).exists() for name in relative.values()} == {True}


def test_servers_use_only_files_that_are_written(tmp_path: Path) -> None:
    made = plan(folder=tmp_path / "r1")
    write_files(made, tmp_path / "r1.kubeconfig")
    for component in COMPONENTS["super"]:
        for argument in servers.arguments(component, made):
            value = argument.partition("=")[2]
            if value.startswith("/") and not argument.startswith("--etcd-prefix"):
                assert Path(value).is_file(), argument


def test_the_stages_of_hollow_nodes_and_pods_are_well_formed() -> None:
    folder = Path(servers.__file__).parent
    stages = [
        stage
        for name in ("hollow-stages.yaml", "hollow-job-stages.yaml")
        for stage in yaml.safe_load_all((folder / name).read_text())
    ]
    assert {stage["kind"] for stage in stages} == {"Stage"}
    assert len({stage["metadata"]["name"] for stage in stages}) == len(stages) == 7


def test_certificates_are_signed_by_their_authority_and_fit_their_use() -> None:
    authority = Authority("ca", NOW)
    ca = x509.load_pem_x509_certificate(authority.pair.certificate.encode())
    server = x509.load_pem_x509_certificate(
        authority.server("s", "127.0.0.1", "localhost").certificate.encode()
    )
    client = x509.load_pem_x509_certificate(authority.client("admin", "system:masters").certificate.encode())
    for certificate in (server, client):
        certificate.verify_directly_issued_by(ca)
        assert certificate.not_valid_before_utc < NOW < certificate.not_valid_after_utc
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("127.0.0.1")]
    assert client.subject.rfc4514_string() == "CN=admin,O=system:masters"
    purposes = [
        list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
        for certificate in (server, client)
    ]
    assert purposes == [[x509.OID_SERVER_AUTH], [x509.OID_CLIENT_AUTH]]
    ssl.create_default_context(cadata=authority.pair.certificate)
    assert "EC PRIVATE KEY" in signing_key()


@pytest.mark.parametrize(
    ("count", "names"),
    [(0, ()), (1, ("acme",)), (2, ("acme", "umbrella")), (4, ("acme", "umbrella", "tenant-3", "tenant-4"))],
)
def test_tenants_have_names(count: int, names: tuple[str, ...]) -> None:
    assert tenant_names(count) == names


@given(st.lists(st.binary(min_size=1, max_size=20), max_size=10), st.integers(0, 60))
def test_truncation_after_bytes_forwards_exactly_that_number(pieces: list[bytes], limit: int) -> None:
    truncation = faults.Truncation(faults.Truncate(after_bytes=limit))
    passed = b""
    for piece in pieces:
        data, end = truncation.pass_through(piece)
        passed += data
        assert end is (len(passed) == limit)
        if end:
            break
    assert passed == b"".join(pieces)[:limit]


@given(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"d\ne", b"\n\n"]), max_size=12), st.integers(0, 4))
def test_truncation_after_lines_ends_within_the_next_line(pieces: list[bytes], limit: int) -> None:
    truncation = faults.Truncation(faults.Truncate(after_lines=limit))
    passed, end = b"", False
    for piece in pieces:
        data, end = truncation.pass_through(piece)
        passed += data
        if end:
            break
    whole = b"".join(pieces)
    assert whole.startswith(passed)
    if end:
        assert not passed.endswith(b"\n")
        assert passed.count(b"\n") >= limit
    else:
        assert passed == whole
