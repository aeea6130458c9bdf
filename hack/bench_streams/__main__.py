"""`python -m hack.bench_streams`: compares kubectl in tenants with kubectl in the super cluster; needs root."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import yaml

from hack.bench_plane.load import Flow
from hack.bench_streams import streams
from hack.bench_streams.streams import POD, PORT, Way
from hack.testbed import TestBed
from hack.testbed.processes import free_ports
from tests.real.up_kit import Up, operator
from tests.real.waiting import eventually

ROUNDS = 3
LEAST_RATE, MOST_ADDED = 0.8, 5.0
"""The aims: ratio of the rates, and added milliseconds of a short command."""
LINE = "x" * 1023
QUOTA = "cpu=500m,memory=512Mi"
"""Default quota of namespaces, with which one node has room for both tenants."""


@click.command()
@click.option("--megabytes", default=100, show_default=True, help="Size of each flow.")
@click.option(
    "--large", default=1000, show_default=True, help="Megabytes through stdin while memory is observed."
)
@click.option("--times", default=20, show_default=True, help="Short commands.")
@click.option("--only", type=click.Choice(["embedded", "external"]), help="Measure one of the two tenants.")
def main(megabytes: int, large: int, times: int, only: str | None) -> None:
    """Measure an embedded and an external tenant with one real container each, on an otherwise idle machine."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vcsync-bench-")))
        bed = stack.enter_context(
            TestBed(
                supers=1, tenants=("outside",), embedded=("meta",), real_nodes=True, directory=folder / "bed"
            )
        )
        up = _started(bed, folder)
        kubelet = bed.supers["r1"].pids
        servers = [kubelet["kube-apiserver"]]
        tenants = {"embedded": up.data / "acme.kubeconfig", "external": bed.tenants["outside"].kubeconfig}
        for name, kubeconfig in tenants.items():
            if only not in (None, name):
                continue
            _place(kubeconfig, megabytes)
            between = [up.pid, *servers]
            if name == "external":
                between.append(bed.tenants["outside"].pids["kube-apiserver"])
            _compare(
                _direct(bed, kubeconfig, servers), Way(name, kubeconfig, "default", between), megabytes, times
            )
            with streams.peak_memory(up.pid) as grown:
                flow = streams.measured(Way(name, kubeconfig, "default", between), streams.sent(large))
            click.echo(
                f"{name}: {flow.size / 1e6:.0f} MB through stdin, {flow.rate:.0f} MB/s, "
                f"the process grows by {grown[0] / 1e6:.1f} MB"
            )
            Way(name, kubeconfig, "default", ()).run("delete", "pod", POD, "--wait=false")
        up.end(15)  # type: ignore[arg-type]


def _started(bed: TestBed, folder: Path) -> Up:
    up = Up(folder / "up")
    first = free_ports(1)[0]
    roles: dict[str, Any] = {"kubelet-address": "127.0.0.1", "kubelet-ports": f"{first}-{first + 20}"}
    settings = {"all": {**roles, "default-slice": ["cpu=250m,memory=256Mi"]}}
    (up.folder / "vcsync.yaml").write_text(yaml.safe_dump(settings))
    real = f"r1={bed.supers['r1'].kubeconfig}"
    up.start("--config", "vcsync.yaml", "--super-cluster", real, "--default-quota", QUOTA)
    outside = bed.tenants["outside"].kubeconfig
    operator(up, f"vcsync tenant add outside --kubeconfig {outside} --default-quota {QUOTA}")
    return up


def _place(kubeconfig: Path, megabytes: int) -> None:
    """Run a Pod that has written a log and serves a file, and wait until its tenant reaches it."""
    way = Way("", kubeconfig, "default", ())
    script = (
        f"yes {LINE} | head -n {megabytes * 1_000_000 // (len(LINE) + 1)}; mkdir /www; "
        f"head -c {megabytes * 1_000_000} /dev/zero > /www/file; exec httpd -f -p {PORT} -h /www"
    )
    container: dict[str, Any] = {"name": "main", "image": "busybox:1.35", "command": ["sh", "-c", script]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
    manifest = kubeconfig.with_suffix(".pod.json")
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD}, "spec": spec}
    manifest.write_text(json.dumps(body))
    eventually(lambda: "created" in way.run("create", "-f", str(manifest)))
    eventually(lambda: "httpd" in way.run("exec", POD, "--", "cat", "/proc/1/comm"), streams.READY_SECONDS)


def _direct(bed: TestBed, kubeconfig: Path, servers: list[int]) -> Way:
    """Return the way to the same Pod in the super cluster."""
    uid = Way("", kubeconfig, "default", ()).run("get", "pod", POD, "-o", "jsonpath={.metadata.uid}")
    copies = json.loads(bed.supers["r1"].kubectl("get", "pods", "-A", "-o", "json"))["items"]
    [namespace] = [
        each["metadata"]["namespace"]
        for each in copies
        if uid in (each["metadata"].get("annotations") or {}).values()
    ]
    return Way("direct", bed.supers["r1"].kubeconfig, namespace, servers)


def _compare(direct: Way, tenant: Way, megabytes: int, times: int) -> None:
    flows: dict[str, Callable[[Way], int]] = {
        "logs": streams.log,
        "exec, output": streams.received(megabytes),
        "exec, input": streams.sent(megabytes),
        "port-forward": streams.forwarded,
    }
    for what, flow in flows.items():
        found: dict[str, list[Flow]] = {"direct": [], tenant.name: []}
        for _ in range(ROUNDS):
            for way in (direct, tenant):
                found[way.name].append(streams.measured(way, flow))
                time.sleep(1)
        best = {name: max(each, key=lambda one: one.rate) for name, each in found.items()}
        one, other = best["direct"], best[tenant.name]
        click.echo(
            f"{tenant.name} {what}: direct {one.rate:.0f} MB/s, {1e9 * one.cpu / one.size:.1f} s of CPU per GB; "
            f"tenant {other.rate:.0f} MB/s, {1e9 * other.cpu / other.size:.1f} s per GB; "
            f"ratio {other.rate / one.rate:.2f} (aim {LEAST_RATE})"
        )
    before, after = streams.latency(direct, times), streams.latency(tenant, times)
    click.echo(
        f"{tenant.name} short command: direct {before:.0f} ms, tenant {after:.0f} ms, added {after - before:.1f} ms "
        f"(aim {MOST_ADDED:.0f})"
    )


if __name__ == "__main__":
    main()
