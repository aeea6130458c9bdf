"""A whole system on this machine: real clusters, all roles, and a tenant's first steps (`make up-real`).

Starts the test bed (meta cluster, super clusters r1 and r2 with hollow nodes, control plane of tenant acme), installs
vcsync as an operator would, runs every role with its own credentials, and follows a tenant's Deployment until its Pods
run on both super clusters. Stops everything that it started.
"""

import contextlib
import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from hack.testbed import BuildError, Cluster, KubectlError, TestBed, TestBedError
from hack.testbed.binaries import locate
from hack.testbed.processes import Process, Spawner, free_ports, wait_gone
from vcsync.api.names import PLACEMENTS, SUPER_CLUSTER
from vcsync.status.server import DEFAULT_LISTEN

ROOT = Path(__file__).resolve().parent.parent
DIRECTORY = ROOT / ".testbed" / "up"
WALKTHROUGH = ROOT / "config" / "samples" / "walkthrough.yaml"
TENANT = "acme"
DEPLOYMENT = "test-1"
READY_SECONDS = 60.0
PODS_SECONDS = 120.0
STOP_SECONDS = 20.0
POLL_SECONDS = 0.5


class UpError(Exception):
    """A process or a cluster did not start; the message names it and its log."""


class Roles:
    """The process that runs all roles.

    Args:
        directory: Folder of its log and of its credentials (``roles``).
    """

    def __init__(self, directory: Path) -> None:
        port = int(DEFAULT_LISTEN.rpartition(":")[2])
        self.endpoint = f"127.0.0.1:{port if port_is_free(port) else free_ports(1)[0]}"
        self.log = directory / "vcsync.log"
        self._directory = directory
        self._spawner = Spawner(die_with_us=True)
        self._process: Process | None = None

    def start(self) -> None:
        """Start it; see `wait_ready`."""
        options = ("--kubeconfigs", str(self._directory / "roles"), "--listen", self.endpoint)
        command = (sys.executable, "-m", "vcsync", "run", "all", *options)
        self.log.unlink(missing_ok=True)
        self._process = self._spawner.start(command, self.log, ROOT)

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        if self._process is None:
            return False
        self._spawner.reap(self._process)
        return self._process.alive

    def wait_ready(self) -> None:
        """Wait until every role is ready.

        Raises:
            UpError: One is not ready within `READY_SECONDS`, or the process has ended.
        """
        deadline = time.monotonic() + READY_SECONDS
        while True:
            code, text = self._readiness()
            if code == 200:
                return
            if not self.alive:
                raise UpError(f"'vcsync run all' ended; its log is {self.log}:\n{_tail(self.log)}")
            if time.monotonic() > deadline:
                raise UpError(f"not ready after {READY_SECONDS:.0f} s (log: {self.log}):\n{text.strip()}")
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """Stop it gracefully; kill it if that takes longer than `STOP_SECONDS`."""
        if self._process is not None and self.alive:
            self._process.send(signal.SIGTERM)
            try:
                wait_gone([self._process], STOP_SECONDS, self._spawner.reap)
            except TimeoutError:
                self._process.send(signal.SIGKILL)
        self._spawner.close()

    def _readiness(self) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{self.endpoint}/readyz", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)


def port_is_free(port: int) -> bool:
    """Return whether a port of this machine is unused."""
    import socket  # noqa: PLC0415

    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def vcsync(bed: TestBed, *arguments: str) -> None:
    """Print and run one of the operator's commands.

    Raises:
        UpError: It failed; the message is its own.
    """
    shown = " ".join(argument.replace(f"{bed.directory}/", "") for argument in arguments)
    click.secho(f"$ vcsync {shown}", bold=True)
    command = (sys.executable, "-m", "vcsync", *arguments, "--meta", str(bed.meta.kubeconfig))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        click.echo(f"  {line}")
    if done.returncode != 0:
        raise UpError(done.stderr.strip())


def install(bed: TestBed) -> None:
    """Perform an operator's one-time steps: install vcsync, register the super clusters and the tenant."""
    vcsync(bed, "install", "--kubeconfigs", str(bed.directory / "roles"))
    for name, cluster in bed.supers.items():
        vcsync(bed, "super", "add", name, "--kubeconfig", str(cluster.kubeconfig))
    vcsync(bed, "tenant", "add", TENANT, "--kubeconfig", str(bed.tenants[TENANT].kubeconfig))


def walk_through(bed: TestBed, roles: Roles) -> None:
    """Perform a tenant's steps: set a quota, run a Deployment, scale it beyond one super cluster.

    Raises:
        UpError: Its Pods do not run in time.
    """
    tenant = bed.tenants[TENANT]
    click.secho(f"$ kubectl apply -f {WALKTHROUGH.relative_to(ROOT)}        (as tenant {TENANT})", bold=True)
    # The control plane has created the namespace already. Server-side apply adds to it without a warning.
    for line in tenant.kubectl("apply", "--server-side", "-f", str(WALKTHROUGH)).splitlines():
        click.echo(f"  {line}")
    _follow(tenant, roles, {1}, "one Pod runs")
    click.secho(f"$ kubectl scale deployment {DEPLOYMENT} --replicas 2", bold=True)
    tenant.kubectl("scale", "deployment", DEPLOYMENT, "--replicas", "2")
    _follow(tenant, roles, {2}, "Pods run on both super clusters")


def _follow(tenant: Cluster, roles: Roles, supers_wanted: set[int], goal: str) -> None:
    """Print every change of the Pods until they run on one of these numbers of super clusters."""
    deadline = time.monotonic() + PODS_SECONDS
    shown: dict[str, str] = {}
    while True:
        pods = json.loads(tenant.kubectl("get", "pods", "-l", f"app={DEPLOYMENT}", "-o", "json"))["items"]
        for pod in pods:
            line = _pod_line(pod)
            if shown.get(pod["metadata"]["name"]) != line:
                shown[pod["metadata"]["name"]] = line
                click.echo(f"  {line}")
        running = {_super_of(pod) for pod in pods if pod["status"].get("phase") == "Running"}
        if len(running) in supers_wanted and len(running) == len(pods):
            click.secho(f"  {goal}", fg="green")
            return
        if not roles.alive:
            raise UpError(f"'vcsync run all' ended; its log is {roles.log}:\n{_tail(roles.log)}")
        if time.monotonic() > deadline:
            where = tenant.kubectl(
                "get",
                "namespace",
                "default",
                "-o",
                f"jsonpath={{.metadata.annotations.{_escaped(PLACEMENTS)}}}",
            )
            raise UpError(
                f"{goal}: not within {PODS_SECONDS:.0f} s; placements {where or 'none'}; log: {roles.log}"
            )
        time.sleep(POLL_SECONDS)


def _pod_line(pod: dict[str, Any]) -> str:
    node = pod["spec"].get("nodeName", "no node yet")
    where = f"super cluster {_super_of(pod)}, {node}" if _super_of(pod) else "no super cluster yet"
    return f"pod {pod['metadata']['name']}: {pod['status'].get('phase', 'Pending')} ({where})"


def _super_of(pod: dict[str, Any]) -> str:
    return str(pod["metadata"].get("labels", {}).get(SUPER_CLUSTER, ""))


def _escaped(key: str) -> str:
    return key.replace(".", "\\.")


def _tail(log: Path, lines: int = 10) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "(empty)"


def print_next_steps(bed: TestBed, roles: Roles) -> None:
    """Print the kubeconfigs, and commands to try."""
    tenant, meta = bed.tenants[TENANT].kubeconfig, bed.meta.kubeconfig
    click.echo()
    click.secho("Everything is running. Kubeconfigs:", bold=True)
    click.echo(f"  tenant {TENANT}   {tenant}")
    click.echo(f"  meta cluster  {meta}")
    for name, cluster in bed.supers.items():
        click.echo(f"  super {name}      {cluster.kubeconfig}")
    click.echo(f"  kubectl       {locate('kubectl')}")
    click.secho("Continue with:", bold=True)
    for line in (
        f"kubectl --kubeconfig {tenant} get pods -o wide -L {SUPER_CLUSTER}",
        f"kubectl --kubeconfig {tenant} get nodes",
        f"export VCSYNC_META={meta} PATH=$PWD/.venv/bin:$PATH",
        f"vcsync status --endpoint {roles.endpoint}",
        f"vcsync explain namespace {TENANT}/default",
        "vcsync super drain r1 --wait      # its Pods move to r2, if the quota fits there",
        f"curl http://{roles.endpoint}/status",
    ):
        click.echo(f"  {line}")
    click.echo(f"Log of all roles: {roles.log}")


def run(bed: TestBed, *, once: bool) -> None:
    """Start everything and perform the walk-through; keep it running unless `once` is set.

    Raises:
        UpError: A process or a cluster did not start, or ended.
    """
    install(bed)
    roles = Roles(bed.directory)
    try:
        click.secho("$ vcsync run all --kubeconfigs roles &", bold=True)
        roles.start()
        roles.wait_ready()
        # The namespace scheduler distributes slices over the super clusters that are ready: wait for both.
        wait = ("wait", "--for=condition=Ready", "superclusters", "--all", f"--timeout={READY_SECONDS:.0f}s")
        bed.meta.kubectl(*wait, timeout=READY_SECONDS + 30)
        click.echo(f"  every role and super cluster is ready: http://{roles.endpoint}/status")
        walk_through(bed, roles)
        if once:
            return
        print_next_steps(bed, roles)
        click.echo("Ctrl-C stops everything.")
        while roles.alive:
            time.sleep(POLL_SECONDS)
        raise UpError(f"'vcsync run all' ended; its log is {roles.log}:\n{_tail(roles.log)}")
    finally:
        click.echo("stopping ...")
        roles.stop()


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Handle SIGTERM and SIGHUP like Ctrl-C, and ignore further signals while stopping."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def interrupt(_number: int, _frame: object) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in numbers:
        signal.signal(number, interrupt)
    yield


def timed_lines() -> Callable[[str], None]:
    """Return a function that prints progress with the elapsed time."""
    started = time.monotonic()
    return lambda line: click.echo(f"[{time.monotonic() - started:5.1f} s] {line}")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--once", is_flag=True, help="End when the Pods run on both super clusters.")
@click.option(
    "--nodes", type=click.IntRange(1, 1000), default=2, show_default=True, help="Nodes of each super cluster."
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=DIRECTORY,
    show_default=".testbed/up",
    help="Folder of data, logs and kubeconfigs.",
)
def main(once: bool, nodes: int, directory: Path) -> None:
    """Start a whole system on this machine and follow a tenant's first steps."""
    with interruptible():
        try:
            with TestBed(
                supers=2,
                nodes=nodes,
                tenants=(TENANT,),
                directory=directory.absolute(),
                progress=timed_lines(),
            ) as bed:
                run(bed, once=once)
        except KeyboardInterrupt:
            click.echo("ended")
        except (UpError, BuildError, TestBedError, KubectlError, ValueError, TimeoutError) as error:
            click.echo(f"up: {error}", err=True)
            sys.exit(1)


if __name__ == "__main__":
    main()
