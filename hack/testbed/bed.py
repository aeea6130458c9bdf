"""The test bed as a whole: starts all clusters side by side, watches over their processes, ends every one."""

import base64
import json
import os
import secrets
import shutil
import socket
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, Self

from hack.testbed import embedded, servers
from hack.testbed import state as state_file
from hack.testbed.binaries import KUBERNETES_VERSION, SERVERS, Progress, ensure, tail
from hack.testbed.cluster import READY_SECONDS, Cluster, KubectlError
from hack.testbed.files import write_files
from hack.testbed.processes import Process, Spawner, boot_id, free_ports, start_time
from hack.testbed.processes import stop as stop_processes
from hack.testbed.processes import wait_gone as wait_processes_gone
from hack.testbed.servers import MAX_CLUSTERS, NodeShape, Plan, Role
from hack.testbed.state import State

__all__ = ["Cluster", "KubectlError", "TestBed", "TestBedError", "stop_recorded"]

TENANT_NAMES = ("acme", "umbrella")
SHARED = ""
"""The key under which the state holds what belongs to no cluster: etcd, and the embedded control plane."""
CONTROL_PLANE = "controlplane"


class TestBedError(Exception):
    """A server did not start or ended; the message names it, its log and the log's last lines."""

    __test__ = False


class TestBed:
    """A meta cluster, super clusters with hollow nodes, and tenant control planes, all real servers.

    `with TestBed(supers=2, tenants=1) as bed: bed.supers["r1"].kubectl("get", "nodes")`. All calls block;
    from asyncio use `asyncio.to_thread`. Every server dies with this process, however that ends, unless
    `detached`.
    """

    __test__ = False

    def __init__(
        self,
        *,
        supers: int = 2,
        nodes: int = 2,
        tenants: int | Sequence[str] = 1,
        directory: Path | None = None,
        node_shape: NodeShape | None = None,
        without_admission: Sequence[str] = (),
        embedded: Collection[Role] = (),
        embedded_on_etcd: bool = False,
        detached: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """Settle what will run; nothing starts yet.

        Args:
            supers: number of super clusters, named r1, r2, ...
            nodes: hollow nodes in each.
            tenants: number of tenant control planes (acme, umbrella, tenant-3, ...) or their names.
            directory: for data, logs and kubeconfigs; a temporary one, removed at the end, when not given.
            node_shape: capacity of each node.
            without_admission: default admission plug-ins that every API server goes without.
            embedded: clusters of these roles share one embedded control plane instead of having a kube-apiserver each.
            embedded_on_etcd: the embedded control plane keeps its objects in the bed's etcd instead of a file.
            detached: let the servers outlive this process; `stop_recorded(directory)` ends them.
            progress: called with a line of text now and then.
        """
        names = tenant_names(tenants) if isinstance(tenants, int) else tuple(tenants)
        self._wanted: list[tuple[str, Role]] = [("meta", "meta")]
        self._wanted += [(f"r{number}", "super") for number in range(1, supers + 1)]
        self._wanted += [(name, "tenant") for name in names]
        self._embedded = frozenset(embedded)
        self._embedded_on_etcd = embedded_on_etcd
        self._nodes = nodes
        self._shape = node_shape or NodeShape()
        self._without_admission = tuple(without_admission)
        self._detached = detached
        self._temporary = directory is None
        self.directory = (directory or Path(tempfile.mkdtemp(prefix="vcsync-testbed-"))).absolute()
        self._report: Progress = progress or (lambda _: None)
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._spawner = Spawner(die_with_us=not detached)
        self._clusters: dict[str, Cluster] = {}
        self.state = State("", _myself(), detached)

    @classmethod
    def attach(cls, directory: Path) -> Self:
        """Use a test bed that another process started in `directory`; stopping it stays that one's business.

        Raises:
            TestBedError: none runs there.
        """
        bed = cls(supers=0, tenants=0, directory=directory, detached=True)
        state = state_file.load(bed.directory)
        if state is None or not state.running():
            raise TestBedError(f"no test bed runs in {directory}; start one with `python -m hack.testbed up`")
        bed.state = state
        bed._clusters = {name: Cluster(bed, plan) for name, plan in state.plans.items()}
        return bed

    @property
    def clusters(self) -> dict[str, Cluster]:
        """All clusters by name."""
        return dict(self._clusters)

    @property
    def meta(self) -> Cluster:
        return self._clusters["meta"]

    @property
    def supers(self) -> dict[str, Cluster]:
        return self._of_role("super")

    @property
    def tenants(self) -> dict[str, Cluster]:
        return self._of_role("tenant")

    @property
    def control_plane(self) -> Process:
        """The process that serves all embedded clusters."""
        return self.state.processes[SHARED][CONTROL_PLANE]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Build what is missing, start everything and wait until it is ready.

        What has started by then is ended when the rest fails.

        Raises:
            BuildError: a binary is missing and cannot be built.
            TestBedError: a server did not come up, or another test bed runs in the directory.
        """
        ensure(SERVERS, self._report)
        self._prepare_directory()
        try:
            self._start_etcd()
            for name, role in self._wanted:
                self._plan(name, role)
            self._start_control_plane()
            self._side_by_side([self._starter(cluster, self._nodes) for cluster in self._clusters.values()])
        except BaseException:
            self._temporary = False  # the logs are wanted now
            self.stop()
            raise

    def stop(self) -> None:
        """End every server. Logs stay, except in a temporary directory."""
        self._stopping.set()
        # Those who attached may have restarted servers: the file knows them, we don't.
        recorded = state_file.load(self.directory)
        restarted = recorded.running() if recorded else []
        stop_processes([*self.state.running(), *restarted], self._spawner.reap)
        self._spawner.close()
        shutil.rmtree(self.directory if self._temporary else self.directory / "etcd", ignore_errors=True)
        shutil.rmtree(self.directory / CONTROL_PLANE, ignore_errors=True)
        (self.directory / state_file.FILE).unlink(missing_ok=True)

    def let_go(self) -> None:
        """Leave a test bed that is detached, or that others started, to itself."""
        self._spawner.close()

    def add_tenant(self, name: str) -> Cluster:
        """Start one more tenant control plane and wait until it is ready."""
        return self._add(name, "tenant", 0)

    def add_super(self, name: str, nodes: int = 2) -> Cluster:
        """Start one more super cluster with hollow nodes and wait until it is ready."""
        return self._add(name, "super", nodes)

    def remove(self, name: str) -> None:
        """End a cluster for good."""
        cluster = self._clusters.pop(name)
        stop_processes(cluster.processes.values(), self._spawner.reap)
        with self._lock:
            del self.state.plans[name], self.state.processes[name]
            state_file.save(self.state, self.directory)

    def restart_etcd(self) -> None:
        """Kill etcd, which all clusters share, and start it again with its data."""
        old = self.state.processes[SHARED]["etcd"]
        stop_processes([old], self._spawner.reap)
        self._run(SHARED, "etcd", old.command, Path(old.log))
        self._wait_for_etcd()

    def compact(self) -> int:
        """Drop all history from etcd, of all clusters, and return the revision up to which it is gone.

        Lists that continue from before it, and watches of a restarted API server from before it, get 410
        Expired.
        """
        latest = self._etcd("kv/range", {"key": base64.b64encode(b"/").decode(), "count_only": True})
        revision = int(latest["header"]["revision"])
        self._etcd("kv/compaction", {"revision": revision, "physical": True})
        return revision

    # What the clusters call.

    def start_component(self, plan: Plan, component: str) -> None:
        """Start one server of a cluster."""
        if component == "kube-apiserver" and plan.embedded:
            self._run_control_plane(plan.port)
            return
        command = [str(ensure([component])[component]), *servers.arguments(component, plan)]
        self._run(plan.name, component, command, plan.folder / f"{component}.log")

    def wait_gone(self, process: Process) -> None:
        """Wait until a process that was sent a signal has ended.

        Raises:
            TimeoutError: it runs on after 70 seconds, the longest a server takes to end gracefully.
        """
        wait_processes_gone([process], 70, self._spawner.reap)

    def check_alive(self, cluster: str) -> None:
        """Make sure that the servers of the cluster and etcd run.

        Raises:
            TestBedError: one has ended, or the test bed is being stopped.
        """
        if self._stopping.is_set():
            raise TestBedError("the test bed was stopped")
        for name in (SHARED, cluster):
            for component, process in self.state.processes.get(name, {}).items():
                code = self._spawner.reap(process)
                if not process.alive:
                    self.give_up(
                        f"{component} of {name or 'the test bed'} ended (exit code {code})", [process]
                    )

    def give_up(self, reason: str, culprits: Iterable[Process]) -> NoReturn:
        """Raise TestBedError with the logs of those that may be the cause."""
        logs = [Path(process.log) for process in culprits]
        text = "\n".join(f"--- {log}\n{tail(log, 8)}" for log in logs)
        raise TestBedError(f"{reason}\n{text}")

    # Below: how it is done.

    def _of_role(self, role: Role) -> dict[str, Cluster]:
        return {name: cluster for name, cluster in self._clusters.items() if cluster.role == role}

    def _prepare_directory(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        old = state_file.load(self.directory)
        if old and old.running():
            raise TestBedError(
                f"a test bed already runs in {self.directory}; end it with "
                f"`python -m hack.testbed down --dir {self.directory}` or choose another --dir"
            )
        for shared in ("etcd", CONTROL_PLANE):
            shutil.rmtree(self.directory / shared, ignore_errors=True)
        for name in old.plans if old else ():
            shutil.rmtree(self.directory / name, ignore_errors=True)

    def _start_etcd(self) -> None:
        client, peer = (f"http://127.0.0.1:{port}" for port in free_ports(2))
        self.state.etcd_url = client
        command = [str(ensure(["etcd"])["etcd"]), *servers.etcd(self.directory / "etcd", client, peer)]
        self._run(SHARED, "etcd", command, self.directory / "etcd.log")

    def _start_control_plane(self) -> None:
        """Start what all embedded tenants share, if there are any, and wait until it serves."""
        plans = [plan for plan in self.state.plans.values() if plan.embedded]
        if not plans:
            return
        self._write_tokens()
        self._run_control_plane(plans[0].port)
        data = self.directory / CONTROL_PLANE
        probe = Cluster(self, replace(plans[0], name=SHARED, path="", folder=data / "pki"))
        probe.wait_for(CONTROL_PLANE, lambda: is_served(plans[0].port))

    def _run_control_plane(self, port: int) -> None:
        etcd = self.state.etcd_url if self._embedded_on_etcd else ""
        command = embedded.command(self.directory / CONTROL_PLANE, port, self._tokens, etcd)
        self._run(SHARED, CONTROL_PLANE, command, self.directory / f"{CONTROL_PLANE}.log")

    @property
    def _tokens(self) -> Path:
        return self.directory / "tokens.csv"

    def _write_tokens(self) -> None:
        with self._lock:
            plans = [plan for plan in self.state.plans.values() if plan.embedded]
            embedded.write_tokens(self._tokens, plans)

    def _wait_for_etcd(self) -> None:
        probe = Cluster(self, Plan(SHARED, "meta", 0, self.directory, 0, 0, self.state.etcd_url, ""))
        probe.wait_for("etcd", lambda: bool(self._etcd("kv/range", {"key": "AA=="})))

    def _etcd(self, path: str, body: object) -> dict[str, dict[str, str]]:
        request = urllib.request.Request(  # noqa: S310 - always http://127.0.0.1
            f"{self.state.etcd_url}/v3/{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            decoded: dict[str, dict[str, str]] = json.load(answer)
            return decoded

    def _add(self, name: str, role: Role, nodes: int) -> Cluster:
        if name in self._clusters:
            raise ValueError(f"the test bed already has a cluster named {name!r}")
        cluster = self._plan(name, role)
        self._start_cluster(cluster, nodes)
        return cluster

    def _plan(self, name: str, role: Role) -> Cluster:
        with self._lock:
            plans = self.state.plans.values()
            taken = {plan.index for plan in plans}
            index = next((index for index in range(MAX_CLUSTERS) if index not in taken), None)
            if index is None:
                raise TestBedError(f"a test bed holds {MAX_CLUSTERS} clusters at most")
            port, kwok_port = free_ports(2, {port for plan in plans for port in (plan.port, plan.kwok_port)})
            is_embedded = role in self._embedded
            if is_embedded:
                port = next((plan.port for plan in plans if plan.embedded), port)
            folder, token = self.directory / name, secrets.token_urlsafe(24)
            plan = Plan(
                name,
                role,
                index,
                folder,
                port,
                kwok_port,
                self.state.etcd_url,
                token,
                self._without_admission,
                embedded.path_of(name) if is_embedded else "",
            )
            self.state.plans[name] = plan
            self._clusters[name] = Cluster(self, plan)
        return self._clusters[name]

    def _starter(self, cluster: Cluster, nodes: int) -> Callable[[], None]:
        return lambda: self._start_cluster(cluster, nodes)

    def _side_by_side(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Run all jobs at once; at the first failure, or an interrupt, tell the others to give up."""
        with ThreadPoolExecutor(max_workers=max(1, len(jobs)), thread_name_prefix="testbed") as pool:
            futures: list[Future[None]] = [pool.submit(job) for job in jobs]
            try:
                done, _ = wait(futures, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
            except BaseException:
                self._stopping.set()
                raise

    def _start_cluster(self, cluster: Cluster, nodes: int) -> None:
        write_files(cluster.plan, cluster.kubeconfig)
        if cluster.plan.embedded:
            self._write_tokens()
            embedded.create(cluster.plan, self.directory / CONTROL_PLANE, cluster.kubeconfig)
        else:
            self.start_component(cluster.plan, "kube-apiserver")
        cluster.wait_ready()
        for component in cluster.plan.components:
            if component != "kube-apiserver":
                self.start_component(cluster.plan, component)
        if cluster.role == "super":
            self._create_nodes(cluster, nodes)
        cluster.wait_for(f"{cluster.name}: controllers", lambda: controllers_work(cluster))
        if cluster.role == "super":
            cluster.wait_for(
                f"{cluster.name}: nodes", lambda: nodes_ready(cluster, nodes), READY_SECONDS + nodes / 10
            )
        self._report(f"{cluster.name} is ready: {cluster.url}")

    def _create_nodes(self, cluster: Cluster, count: int) -> None:
        with cluster.session() as session:
            for position in range(count):
                node = servers.node(cluster.plan, position, self._shape, KUBERNETES_VERSION)
                status, answer = session.call("POST", "/api/v1/nodes", node)
                if status != 201:
                    raise TestBedError(f"{cluster.name}: creating {node['metadata']['name']}: {answer}")

    def _run(self, group: str, component: str, command: Sequence[str], log: Path) -> None:
        with self._lock:
            if self._stopping.is_set():
                raise TestBedError("the test bed was stopped")
            process = self._spawner.start(command, log, self.directory)
            self.state.processes.setdefault(group, {})[component] = process
            state_file.save(self.state, self.directory)


def tenant_names(count: int) -> tuple[str, ...]:
    """Names of the first `count` tenants: acme, umbrella, tenant-3, ..."""
    numbered = (f"tenant-{number}" for number in range(len(TENANT_NAMES) + 1, count + 1))
    return (*TENANT_NAMES[:count], *numbered)


def stop_recorded(directory: Path) -> int:
    """End the test bed that runs in `directory`, whoever started it; returns how many servers ran.

    Raises:
        ValueError: the state file is not a test bed's.
        TimeoutError: a server cannot be ended.
    """
    state = state_file.load(directory)
    if state is None:
        return 0
    running = state.running()
    stop_processes(running)
    shutil.rmtree(directory / "etcd", ignore_errors=True)
    (directory / state_file.FILE).unlink(missing_ok=True)
    return len(running)


def controllers_work(cluster: Cluster) -> bool:
    """Whether the controller manager has made what every namespace needs before Pods can be made in it."""
    needed = (
        "/api/v1/namespaces/default/serviceaccounts/default",
        "/api/v1/namespaces/default/configmaps/kube-root-ca.crt",
    )
    with cluster.session() as session:
        return all(session.call("GET", path)[0] == 200 for path in needed)


def is_served(port: int) -> bool:
    """Whether something accepts connections at a port of this machine."""
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return True


def nodes_ready(cluster: Cluster, count: int) -> bool:
    """Whether `count` nodes are there, Ready and free of taints."""
    _, listing = cluster.call("GET", "/api/v1/nodes")
    ready = [
        node
        for node in listing["items"]
        if not node["spec"].get("taints")
        and any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", ()))
    ]
    return len(ready) >= count


def _myself() -> Process:
    pid = os.getpid()
    return Process(pid, start_time(pid) or 0, boot_id(), (), "")
