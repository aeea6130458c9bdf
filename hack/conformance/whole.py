"""A test environment of only vcsync's programs: `vcsync up` with its controllers and hollow super clusters."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from hack.conformance.environment import (
    POD_POLICY,
    RESIDENT,
    RUNTIME_CLASS,
    SUPER_CLUSTERS,
    TENANT,
    EnvironmentFailed,
    Nodes,
)
from hack.conformance.runner import Target
from hack.testbed import ensure
from hack.testbed.processes import Process, Spawner, free_ports
from hack.testbed.processes import stop as kill_processes

VCSYNC = (sys.executable, "-m", "vcsync")
SUPERS = tuple(f"r{number + 1}" for number in range(SUPER_CLUSTERS))
QUOTA_BY_NODES = {True: {"cpu": "64", "memory": "128Gi"}, False: {"cpu": "16", "memory": "32Gi"}}
"""Default quota of a namespace, by whether there are many nodes: a node is as large as a namespace's share of a super
cluster."""
MANY = 10
READY_SECONDS = 120.0
COMMAND_SECONDS = 120.0


class WholeEnvironment:
    """A tenant of `vcsync up` on two hollow super clusters, with vcsync's own controllers.

    Args:
        directory: for data and logs; files of an earlier run are removed.
        nodes: number of nodes of each super cluster; `vcsync up` decides about their shape.
        own_nodes: whether the tests run on a super cluster, which owns its nodes, instead of on the tenant.
    """

    def __init__(self, directory: Path, nodes: Nodes, *, own_nodes: bool = False) -> None:
        self._nodes = nodes.count
        self._own_nodes = own_nodes
        self._data = directory / "data"
        self._log = directory / "up.log"
        self._programs = ensure(("kubectl", "e2e.test"), print)
        self._spawner = Spawner(die_with_us=True)
        self._process: Process | None = None

    def start(self) -> None:
        """Start everything, and wait until the tenant's own Pods run.

        Raises:
            EnvironmentFailed: vcsync did not start.
        """
        self._start_up()
        self._prepare()

    def stop(self) -> None:
        """Stop all processes."""
        if self._process is not None:
            kill_processes([self._process], self._spawner.reap)
            self._process = None
        self._spawner.close()

    @property
    def target(self) -> Target:
        """Return the tenant, or the super cluster, for the tests."""
        nodes = self._nodes if self._own_nodes else SUPER_CLUSTERS * self._nodes
        kubeconfig = self._super_kubeconfig(SUPERS[0]) if self._own_nodes else self._kubeconfig(TENANT)
        return Target(self._programs["e2e.test"], self._programs["kubectl"], kubeconfig, nodes)

    def _kubeconfig(self, name: str) -> Path:
        return self._data / f"{name}.kubeconfig"

    def _super_kubeconfig(self, name: str) -> Path:
        return self._data.parent / f"{name}.kubeconfig"

    def _start_up(self) -> None:
        shutil.rmtree(self._data, ignore_errors=True)
        self._log.unlink(missing_ok=True)
        self._data.parent.mkdir(parents=True, exist_ok=True)
        port, status = free_ports(2)
        command = (
            *(*VCSYNC, "up", "--data", str(self._data), "--tenants", TENANT, "--hollow", ",".join(SUPERS)),
            *("--nodes", str(self._nodes), "--log-level", "info"),
            # Tests create many namespaces, and terminating ones still count.
            *("--quota", ""),
            *("--listen", f"127.0.0.1:{port}", "--status", f"127.0.0.1:{status}"),
        )
        self._process = self._spawner.start(command, self._log, Path.cwd())
        deadline = time.monotonic() + READY_SECONDS
        while "ready after" not in self._log.read_text(errors="replace"):
            self._spawner.reap(self._process)
            if not self._process.alive or time.monotonic() > deadline:
                raise EnvironmentFailed(f"vcsync up is not ready; see {self._log}")
            time.sleep(0.1)

    def _prepare(self) -> None:
        """Set up the tenant as an operator: the Pod policy, a default quota, a runtime in the super clusters."""
        for name in SUPERS:
            kubeconfig = self._super_kubeconfig(name)
            kubeconfig.touch(mode=0o600)
            kubeconfig.write_text(
                _run((*VCSYNC, "tenant", "kubeconfig", name, "--data", str(self._data)), None)
            )
            self._kubectl(kubeconfig, "apply", "-f", "-", manifest=RUNTIME_CLASS)
        quota = QUOTA_BY_NODES[self._nodes >= MANY]
        patch = json.dumps({"spec": {"podPolicy": POD_POLICY, "defaultQuota": quota}})
        admin = self._kubeconfig("admin")
        self._kubectl(admin, "patch", "virtualcluster", TENANT, "-n", "vcsync", "--type=merge", "-p", patch)
        if not self._own_nodes:
            self._settle()

    def _settle(self) -> None:
        """Run the tenant's own Pods, so that it sees their nodes."""
        tenant = self._kubeconfig(TENANT)
        self._kubectl(tenant, "apply", "-f", "-", manifest=RESIDENT)
        wait = f"--timeout={COMMAND_SECONDS - 10:.0f}s"
        self._kubectl(tenant, "rollout", "status", "deployment/resident", "-n", "default", wait)

    def _kubectl(self, kubeconfig: Path, *arguments: str, manifest: object = None) -> None:
        command = (str(self._programs["kubectl"]), "--kubeconfig", str(kubeconfig), *arguments)
        _run(command, None if manifest is None else json.dumps(manifest))


def _run(command: tuple[str, ...], stdin: str | None) -> str:
    """Run a command and return its standard output.

    Raises:
        EnvironmentFailed: it failed.
    """
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_SECONDS,
    )
    if done.returncode:
        raise EnvironmentFailed(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
