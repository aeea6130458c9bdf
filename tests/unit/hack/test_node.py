"""The configuration, images and control groups of a real node, checked without one."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import subprocess
import tarfile
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hack.node import busybox, cgroups, configuration, images, namespaces, requirements
from hack.node.__main__ import tenant
from hack.node.images import Image
from hack.node.plan import PORTS, NodePlan
from hack.testbed import TestBed, realnode, servers
from hack.testbed.files import write_files
from hack.testbed.plan import MAX_CLUSTERS, Plan
from hack.testbed.processes import Process
from hack.testbed.state import State, load, save
from tests.unit.hack.test_testbed_servers import plan
from vcsync.apiserver.operator.defaults import SERVICE_ADDRESS

PORT = st.integers(1, PORTS - 1)


def node(port: int = 6443, folder: Path = Path("/bed/r1/node")) -> NodePlan:
    return NodePlan(folder, port, "10.65.0.1", "192.0.2.2")


def real(folder: Path = Path("/bed/r1")) -> Plan:
    return replace(plan(folder=folder), nodes=1, real=True)


@given(PORT, PORT)
def test_nodes_of_different_ports_share_no_name_and_no_address(one: int, other: int) -> None:
    first, second = node(one), node(other)
    for each in ("link", "machine_address", "address", "pod_cidr", "cgroup"):
        assert (getattr(first, each) == getattr(second, each)) is (one == other)
    if one != other:
        pods = [ipaddress.ip_network(each.pod_cidr) for each in (first, second)]
        assert not pods[0].overlaps(pods[1])


@given(PORT)
def test_addresses_of_nodes_are_outside_those_of_hollow_clusters(port: int) -> None:
    made = node(port)
    link = ipaddress.ip_interface(f"{made.machine_address}/30").network
    assert ipaddress.ip_address(made.address) in link
    assert link.subnet_of(ipaddress.ip_network("198.18.0.0/15"))
    pods = ipaddress.ip_network(made.pod_cidr)
    assert pods.subnet_of(ipaddress.ip_network("10.192.0.0/10"))
    assert pods.num_addresses - 3 > configuration.PODS  # network, gateway, broadcast
    last = replace(plan(), index=MAX_CLUSTERS - 1)
    assert not any(pods.overlaps(ipaddress.ip_network(each)) for each in (last.service_cidr, last.pod_cidr))


@given(PORT)
def test_names_of_links_fit_into_the_kernels_limit(port: int) -> None:
    assert len(node(port).link) <= 15


def test_a_port_without_addresses_is_refused() -> None:
    with pytest.raises(ValueError, match="port 40000 of the API server of a real node is not below 32768"):
        node(40_000)


def test_a_node_serves_its_api_server_and_those_of_tenants() -> None:
    served = replace(node(), tenants=(("10.66.0.1", 7001),)).served_at
    assert [(each.address, each.port, each.machine_port) for each in served] == [
        ("127.0.0.1", 6443, 6443),
        ("10.65.0.1", 443, 6443),
        ("192.0.2.2", 6443, 6443),
        ("10.66.0.1", 443, 7001),
    ]


def test_tenants_of_one_embedded_control_plane_are_served_at_one_address() -> None:
    inside, other = (replace(real(), role="tenant", path=f"/tenants/{name}") for name in ("inside", "other"))
    outside = replace(real(), role="tenant", index=3, port=7001)
    command = realnode.namespaces(real(), [inside, other, outside])
    assert [each for each in command if each.startswith("--")] == [
        f"--tenant={SERVICE_ADDRESS}={inside.port}",
        "--tenant=10.67.0.1=7001",
    ]


def test_services_are_served_beside_other_clusters() -> None:
    command = realnode.namespaces(real(), (), {"10.65.0.200": 7002})
    assert [each for each in command if each.startswith("--")] == ["--tenant=10.65.0.200=7002"]


def test_the_address_of_a_tenant_is_parsed_with_its_port() -> None:
    assert tenant("10.66.0.1=7001") == ("10.66.0.1", 7001)


@pytest.mark.parametrize("text", ["", "10.66.0.1", "acme=7001", "10.66.0.1=https"])
def test_a_tenant_without_address_or_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - argparse names the option and the value
        tenant(text)


def test_a_real_cluster_has_a_kubelet_instead_of_kwok() -> None:
    assert real().components[-4:] == ("kube-scheduler", "node", "containerd", "kubelet")
    assert "kwok" not in real().components
    assert servers.address_types(real()) == ("InternalIP",)
    assert servers.address_types(plan()) == ("ExternalDNS", "Hostname", "InternalIP")


def test_real_nodes_need_super_clusters_with_kube_apiservers() -> None:
    for embedded in (("super",), ("r1",)):
        with pytest.raises(ValueError, match="take them out of embedded"):
            TestBed(supers=1, embedded=embedded, real_nodes=True, directory=Path("/nowhere"))


def test_the_state_file_keeps_that_a_node_is_real(tmp_path: Path) -> None:
    owner = Process(1, 1, "boot", (), "")
    save(State("", owner, False, {"r1": real()}), tmp_path)
    loaded = load(tmp_path)
    assert loaded
    assert loaded.plans["r1"].real


def test_programs_of_a_node_use_only_files_that_are_written(tmp_path: Path) -> None:
    made = real(tmp_path / "r1")
    write_files(made, tmp_path / "r1.kubeconfig")
    folder = realnode.of(made).folder
    containerd = tomllib.loads((folder / "containerd.toml").read_text())
    kubelet = json.loads((folder / "kubelet.json").read_text())
    arguments = configuration.kubelet(realnode.of(made), Path("/x/kubelet"))
    arguments += configuration.containerd(realnode.of(made), Path("/x/containerd"), Path("/x/runc"))
    runtime = containerd["plugins"]["io.containerd.cri.v1.runtime"]
    used = [
        *(value for each in arguments if (value := each.partition("=")[2]).startswith(str(tmp_path))),
        kubelet["authentication"]["x509"]["clientCAFile"],
        kubelet["tlsCertFile"],
        kubelet["tlsPrivateKeyFile"],
        runtime["containerd"]["runtimes"]["runc"]["options"]["BinaryName"],
        *(str(each) for each in Path(runtime["cni"]["conf_dir"]).iterdir()),
    ]
    assert len(used) == 8
    assert [each for each in used if not Path(each).is_file()] == []


def test_kubelet_uses_the_addresses_and_control_groups_of_its_node() -> None:
    made = node(25_000)
    config = json.loads(configuration.kubelet_configuration(made))
    assert (config["address"], config["cgroupRoot"]) == (made.address, "/vcsync-node-25000")
    assert config["containerRuntimeEndpoint"] == "unix:///run/containerd/containerd.sock"
    network = json.loads(configuration.network_configuration(made))
    [bridge] = network["plugins"]
    assert bridge["ipam"]["ranges"] == [[{"subnet": made.pod_cidr}]]


def test_a_program_enters_the_mounts_and_the_network_of_its_node() -> None:
    command = configuration.entered(node(), 42, ["kubelet"])
    assert command[:3] == ["nsenter", "--mount=/proc/42/ns/mnt", "--net=/proc/42/ns/net"]
    assert command[-1] == "kubelet"


@pytest.fixture
def image(tmp_path: Path) -> Image:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    return Image(
        ("example.org/a:1", "example.org/b:1"), ("/bin/p",), ("x",), {"bin/p": program}, links={"bin/q": "p"}
    )


def test_an_archive_names_its_layers_and_configurations(image: Image, tmp_path: Path) -> None:
    other = replace(image, names=("example.org/c:1",), links={})
    images.write_archive([image, other], tmp_path / "images.tar", "arm64")
    with tarfile.open(tmp_path / "images.tar") as archive:
        content = {each.name: archive.extractfile(each).read() for each in archive}  # type: ignore[union-attr]
    manifest = json.loads(content["manifest.json"])
    assert [each["RepoTags"] for each in manifest] == [
        ["example.org/a:1", "example.org/b:1"],
        ["example.org/c:1"],
    ]
    for each in manifest:
        config, [layer] = json.loads(content[each["Config"]]), each["Layers"]
        assert each["Config"] == hashlib.sha256(content[each["Config"]]).hexdigest() + ".json"
        assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(content[layer]).hexdigest()}"]
        assert (config["architecture"], config["os"]) == ("arm64", "linux")
        assert (config["config"]["Entrypoint"], config["config"]["Cmd"]) == (["/bin/p"], ["x"])


def test_a_layer_has_runnable_programs_links_and_a_folder_for_temporary_files(
    image: Image, tmp_path: Path
) -> None:
    (tmp_path / "layer.tar").write_bytes(images.layer_of(image))
    with tarfile.open(tmp_path / "layer.tar") as layer:
        entries = {each.name: each for each in layer}
    assert entries["bin"].isdir()
    assert entries["bin/p"].mode & 0o111
    assert (entries["bin/q"].issym(), entries["bin/q"].linkname) == (True, "p")
    assert entries["tmp"].mode == 0o1777
    assert entries["etc/passwd"].isfile()
    names = list(entries)
    assert all(names.index("bin") < names.index(each) for each in names if each.startswith("bin/"))


def test_a_layer_is_the_same_whenever_it_is_made(image: Image) -> None:
    assert images.layer_of(image) == images.layer_of(image)


def test_the_applets_of_a_busybox_are_its_links(tmp_path: Path) -> None:
    box, agnhost = tmp_path / "busybox", tmp_path / "agnhost"
    box.write_text("#!/bin/sh\necho busybox; echo sh; echo tar\n")
    box.chmod(0o755)
    made = images.all_images(box, agnhost, {})
    assert [each.names[0].rpartition("/")[2] for each in made] == [
        "pause:3.10",
        "busybox:1.35",
        "agnhost:2.63.0",
    ]
    assert all(each.links == {"bin/sh": "busybox", "bin/tar": "busybox"} for each in made)


@pytest.mark.parametrize(("applets", "scripts"), [("sh tar", ["bin/printenv"]), ("sh printenv", [])])
def test_agnhost_has_the_commands_that_busybox_lacks(
    tmp_path: Path, applets: str, scripts: list[str]
) -> None:
    box = tmp_path / "busybox"
    box.write_text(f"#!/bin/sh\nprintf '%s\\n' {applets}\n")
    box.chmod(0o755)
    *others, agnhost = images.all_images(box, tmp_path / "agnhost", {"localhost.crt": "certificate"})
    assert list(agnhost.texts) == [*scripts, "localhost.crt"]
    assert not any(each.texts for each in others)


def test_the_printenv_of_agnhost_prints_one_variable(tmp_path: Path) -> None:
    script = tmp_path / "printenv"
    script.write_text(images.SCRIPTS["bin/printenv"])
    environment = {"PATH": "/usr/bin:/bin", "HOST": "10.0.0.1", "OTHER_HOST": "no", "NOTE": "HOST=x"}
    done = subprocess.run(["sh", script, "HOST"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "10.0.0.1\n"


@pytest.mark.parametrize(
    ("content", "static"), [(b"\x7fELF....", True), (b"\x7fELF../lib64/ld-linux-x86-64.so.2", False)]
)
def test_a_dynamically_linked_program_names_its_linker(tmp_path: Path, content: bytes, static: bool) -> None:
    program = tmp_path / "program"
    program.write_bytes(content)
    assert busybox.is_static(program) is static


def test_a_busybox_that_cannot_be_downloaded_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(busybox.NoBusyboxError, match=r"apt-get install busybox-static.*apt-get"):
        busybox.find(tmp_path / "cache")


def test_runc_gets_a_bundle_without_seccomp_profiles(tmp_path: Path) -> None:
    runc, bundle = tmp_path / "bin" / "runc", tmp_path / "bundle"
    runc.parent.mkdir()
    runc.write_text('#!/bin/sh\necho "$@"\n')
    runc.chmod(0o755)
    bundle.mkdir()
    (bundle / "config.json").write_text('{"linux":{"seccomp":{"defaultAction":"SCMP_ACT_ERRNO"},"uid":0}}')
    done = subprocess.run(
        [configuration.RUNC, "--root", "/r", "create", "--bundle", str(bundle), "id"],
        env={"PATH": f"{runc.parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"--root /r create --bundle {bundle} id\n"
    changed = json.loads((bundle / "config.json").read_text())["linux"]
    assert "seccomp" not in changed
    assert changed["uid"] == 0


def hierarchy(folder: Path, *groups: str) -> Path:
    """Make a folder like a hierarchy of control groups of version 1; its groups are empty, as when they can be removed."""
    folder.mkdir(parents=True)
    (folder / "cgroup.procs").touch()
    for group in groups:
        (folder / group).mkdir(parents=True)
    return folder


def test_all_hierarchies_are_found_once(tmp_path: Path) -> None:
    cpu, memory = hierarchy(tmp_path / "cpu,cpuacct"), hierarchy(tmp_path / "memory")
    (tmp_path / "cpu").symlink_to(cpu)
    (tmp_path / "empty").mkdir()
    assert cgroups.hierarchies(tmp_path) == [cpu, memory]
    assert cgroups.hierarchies(memory) == [memory]  # version 2: the root itself


def test_groups_of_nodes_are_removed_with_the_groups_in_them(tmp_path: Path) -> None:
    hierarchy(tmp_path / "cpu", "vcsync-node-1/kubepods/pod1", "other")
    memory = hierarchy(tmp_path / "memory", "vcsync-node-2/kubepods", "vcsync-node-3")
    in_use = memory / "vcsync-node-3" / "cgroup.procs"
    in_use.touch()  # a file prevents the removal of this folder, as a process that of a group
    cgroups.sweep("vcsync-node-", tmp_path)
    assert cgroups.names("vcsync-node-", tmp_path) == {"vcsync-node-3"}
    assert (tmp_path / "cpu" / "other").exists()
    assert cgroups.remove("vcsync-node-3", root=tmp_path) is False
    in_use.unlink()
    assert cgroups.remove("vcsync-node-3", root=tmp_path) is True
    assert cgroups.remove("never-there", root=tmp_path) is True


def test_folders_that_a_node_does_not_see_are_refused() -> None:
    [line] = requirements.hidden([Path("/var/lib/bed"), Path("/tmp/bed")])
    assert line.startswith("a place for /var/lib/bed outside /var/lib")


def test_a_machine_without_root_or_programs_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert requirements.missing([tmp_path])[-1] == "root: run as root"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "the program nsenter (Debian's package util-linux)" in requirements.missing([tmp_path])
    with pytest.raises(realnode.NodeError, match=r"a real node needs the program ip .*; root: run as root"):
        realnode.prepare(tmp_path, print)


def test_an_error_of_the_kernel_names_what_failed(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"mounting .*/missing: "):
        namespaces.mount("none", tmp_path / "missing", "tmpfs")
