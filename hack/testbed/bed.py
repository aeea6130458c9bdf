"""The test bed as a whole: starts all clusters concurrently, checks their processes, and stops all of them."""

import base64
import json
import os
import secrets
import shutil
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, Self

from hack.testbed import embedded, realnode, servers
from hack.testbed import state as state_file
from hack.testbed.binaries import KUBERNETES_VERSION, SERVERS, Progress, ensure, tail
from hack.testbed.checks import controllers_work, is_served, nodes_ready
from hack.testbed.cluster import READY_SECONDS, Cluster, KubectlError
from hack.testbed.files import write_files
from hack.testbed.plan import CONTROL_PLANE, DRIVERS, HOLLOW, MAX_CLUSTERS, REAL_NODE, NodeShape, Plan, Role
from hack.testbed.processes import Process, Spawner, boot_id, free_ports, start_time
from hack.testbed.processes import stop as stop_processes
from hack.testbed.processes import wait_gone as wait_processes_gone
from hack.testbed.state import State

__all__ = ["Cluster", "KubectlError", "TestBed", "TestBedError", "stop_recorded"]

TENANT_NAMES = ("acme", "umbrella")
SCHEDULER = "kube-scheduler"
FATAL_ERROR = "Scheduler cache is corrupted"
SHARED = ""
"""Key of the state for processes that belong to no single cluster: etcd, and embedded control planes."""


class TestBedError(Exception):
    """A server did not start or ended; the message names it, its log and the log's last lines."""

    __test__ = False


class TestBed:
    """A meta cluster, super clusters with hollow nodes, and tenant control planes, all real servers.

    `with TestBed(supers=2, tenants=1) as bed: bed.supers["r1"].kubectl("get", "nodes")`. All calls block; from asyncio
    use `asyncio.to_thread`. Every server ends together with this process, even if that is killed, unless `detached`.
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
        embedded: Collection[str] = (),
        embedded_on_etcd: bool = False,
        etcd_members: int = 1,
        ours: bool = False,
        real_nodes: bool = False,
        services: Mapping[str, int] | None = None,
        dual_stack: Collection[str] = (),
        pool: Path | None = None,
        detached: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """Store the configuration; `start` starts the servers.

        Args:
            supers: number of super clusters, named r1, r2, ...
            nodes: number of hollow nodes in each super cluster.
            tenants: number of tenant control planes (acme, umbrella, tenant-3, ...) or their names.
            directory: for data, logs and kubeconfigs; None: a temporary one, which is removed at the end.
            node_shape: capacity of each node.
            without_admission: default admission plug-ins to disable in every API server.
            embedded: roles or names of the clusters that share embedded control planes (one for super clusters, one for all
                others) instead of having their own kube-apiserver.
            embedded_on_etcd: whether embedded control planes store objects in the bed's etcd instead of a file.
            etcd_members: number of members of the bed's etcd, each in its own process; `stop_member` stops one.
            ours: whether embedded clusters have vcsync's controllers and hollow nodes instead of
                kube-controller-manager, kube-scheduler and kwok.
            real_nodes: whether each super cluster has one real node instead of hollow ones; needs root.
            services: address -> port of this machine, at which Pods on real nodes reach it by that address and port 443.
            dual_stack: names of the clusters whose kube-apiservers allocate cluster IPs of both IP families.
            pool: kubeconfig of the role `streams`, which may be written later: Pods of embedded tenants are then reached.
            detached: whether the servers outlive this process; `stop_recorded(directory)` stops them.
            progress: called with lines of progress.
        """
        names = tenant_names(tenants) if isinstance(tenants, int) else tuple(tenants)
        self._wanted: list[tuple[str, Role]] = [("meta", "meta")]
        self._wanted += [(f"r{number}", "super") for number in range(1, supers + 1)]
        self._wanted += [(name, "tenant") for name in names]
        self._embedded = frozenset(embedded)
        self._embedded_on_etcd = embedded_on_etcd
        self._etcd_members = etcd_members
        self._ours = ours
        self._real_nodes = real_nodes
        self._services = dict(services or {})
        self._dual_stack = frozenset(dual_stack)
        self._pool = pool
        if embedded_ones := [
            each[0] for each in self._wanted if each[0] in dual_stack and self._is_embedded(*each)
        ]:
            raise ValueError(
                f"dual_stack needs kube-apiservers, not embedded clusters: {', '.join(embedded_ones)}"
            )
        if real_nodes and any(each[1] == "super" and self._is_embedded(*each) for each in self._wanted):
            raise ValueError(
                "real_nodes needs super clusters with kube-apiservers: take them out of embedded"
            )
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
        """Use a test bed that another process started in `directory`; that process remains responsible for stopping it.

        Raises:
            TestBedError: no test bed runs there.
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
        """Name -> cluster, of all clusters."""
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

    def shared(self, plan: Plan) -> dict[str, Process]:
        """Return program -> process, of the processes that an embedded cluster shares with others."""
        if not plan.embedded:
            return {}
        found = self.state.processes[SHARED]
        names = {CONTROL_PLANE: plan.plane, DRIVERS: f"{plan.plane}-{DRIVERS}"}
        return {program: found[name] for program, name in names.items() if name in found}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Build missing binaries, start all servers and wait until they are ready.

        If one fails, the servers that have started are stopped.

        Raises:
            BuildError: a binary is missing and cannot be built.
            NodeError: the machine cannot have real nodes.
            TestBedError: a server did not start, or another test bed runs in the directory.
        """
        if self._real_nodes:
            realnode.prepare(self.directory, self._report)
        ensure(SERVERS, self._report)
        self._prepare_directory()
        try:
            if self._embedded_on_etcd or not all(self._is_embedded(*each) for each in self._wanted):
                self._start_etcd()
            for name, role in self._wanted:
                self._plan(name, role, self._nodes)
            self._start_control_planes()
            self._run_concurrently([self._starter(cluster) for cluster in self._clusters.values()])
        except BaseException:
            # Keep the logs, which show the reason.
            self._temporary = False
            self.stop()
            raise

    def stop(self) -> None:
        """Stop every server. Logs remain, except in a temporary directory."""
        self._stopping.set()
        # Attached processes may have restarted servers. Only the file knows them.
        recorded = state_file.load(self.directory)
        restarted = recorded.running() if recorded else []
        stop_processes([*self.state.running(), *restarted], self._spawner.reap)
        self._spawner.close()
        _remove_nodes(self.state.plans.values())
        shutil.rmtree(self.directory if self._temporary else self.directory / "etcd", ignore_errors=True)
        for plane in self.directory.glob(f"{CONTROL_PLANE}*/"):
            shutil.rmtree(plane, ignore_errors=True)
        (self.directory / state_file.FILE).unlink(missing_ok=True)

    def let_go(self) -> None:
        """Release a test bed that is detached, or that another process started, without stopping it."""
        self._spawner.close()

    def add_tenant(self, name: str, *, without_controllers: Sequence[str] = ()) -> Cluster:
        """Start one more tenant control plane and wait until it is ready.

        Args:
            name: of the tenant.
            without_controllers: controllers of its kube-controller-manager that do not run.
        """
        return self._add(name, "tenant", 0, without_controllers)

    def add_super(self, name: str, nodes: int = 2) -> Cluster:
        """Start one more super cluster with hollow nodes and wait until it is ready."""
        return self._add(name, "super", nodes)

    def remove(self, name: str) -> None:
        """Remove a cluster permanently; processes that it shares with others continue to run."""
        del self._clusters[name]
        stop_processes(self.state.processes.get(name, {}).values(), self._spawner.reap)
        _remove_nodes([self.state.plans[name]])
        with self._lock:
            del self.state.plans[name]
            self.state.processes.pop(name, None)
            state_file.save(self.state, self.directory)

    def restart_etcd(self) -> None:
        """Kill etcd, which all clusters share, and start it again with its data."""
        old = self.state.processes[SHARED]["etcd"]
        stop_processes([old], self._spawner.reap)
        self._run(SHARED, "etcd", old.command, Path(old.log))
        self._wait_for_etcd()

    @property
    def etcd_members(self) -> tuple[str, ...]:
        """Names of the members of the bed's etcd."""
        return tuple(name for name in self.state.processes[SHARED] if name.startswith("etcd"))

    def stop_member(self, name: str) -> None:
        """Kill one member of etcd; its data remain."""
        stop_processes([self.state.processes[SHARED][name]], self._spawner.reap)

    def start_member(self, name: str) -> None:
        """Restart a stopped member of etcd with its data, without waiting for it."""
        old = self.state.processes[SHARED][name]
        self._run(SHARED, name, old.command, Path(old.log))

    def compact(self) -> int:
        """Compact the history of all clusters in etcd and return the revision of the compaction.

        Lists that continue from an older revision get 410 Expired, and so do watches of a restarted API server.
        """
        latest = self._etcd("kv/range", {"key": base64.b64encode(b"/").decode(), "count_only": True})
        revision = int(latest["header"]["revision"])
        self._etcd("kv/compaction", {"revision": revision, "physical": True})
        return revision

    def lose(self, name: str, *prefixes: str) -> None:
        """Restart a kube-apiserver without some of its objects, as after a restore from an older backup.

        Args:
            name: of the cluster.
            prefixes: of the keys to remove, below the cluster's own prefix: `pods/`, `namespaces/shop`.
        """
        cluster = self._clusters[name]
        cluster.kill("kube-apiserver")
        for prefix in prefixes:
            key = f"/{name}/{prefix}".encode()
            end = key[:-1] + bytes([key[-1] + 1])
            self._etcd(
                "kv/deleterange",
                {"key": base64.b64encode(key).decode(), "range_end": base64.b64encode(end).decode()},
            )
        self.compact()
        cluster.start("kube-apiserver")
        cluster.wait_ready()

    # Methods for `Cluster`.

    def start_component(self, plan: Plan, component: str) -> None:
        """Start one server of a cluster."""
        program = plan.program(component)
        if program == CONTROL_PLANE:
            self._run_control_plane(plan)
        elif program == DRIVERS:
            self._run_controllers(plan)
        elif program in REAL_NODE:
            self._run_node(plan, program)
        else:
            command = (
                embedded.hollow(plan)
                if program == HOLLOW
                else [str(ensure([program])[program]), *servers.arguments(program, plan)]
            )
            self._run(plan.name, program, command, plan.folder / f"{program}.log")

    def wait_gone(self, process: Process) -> None:
        """Wait until a process has ended after a signal.

        Raises:
            TimeoutError: it still runs after 70 seconds, the longest graceful shutdown of a server.
        """
        wait_processes_gone([process], 70, self._spawner.reap)

    def check_alive(self, cluster: str) -> None:
        """Check that the servers of the cluster and etcd run.

        Raises:
            TestBedError: one has ended, or the test bed is being stopped.
        """
        if self._stopping.is_set():
            raise TestBedError("the test bed was stopped")
        self.revive()
        for name in (SHARED, cluster):
            for component, process in self.state.processes.get(name, {}).items():
                code = self._spawner.reap(process)
                if not process.alive:
                    self.give_up(
                        f"{component} of {name or 'the test bed'} ended (exit code {code})", [process]
                    )

    def revive(self) -> list[str]:
        """Restart kube-schedulers that ended themselves, as a Deployment would; return the end of each one's log.

        A kube-scheduler ends itself when the answer to a binding was lost. Other ends of processes are not handled.
        """
        revived = []
        for name, processes in list(self.state.processes.items()):
            process = processes.get(SCHEDULER)
            if process is None:
                continue
            self._spawner.reap(process)
            log = "" if process.alive else tail(Path(process.log), 20)
            if FATAL_ERROR in log:
                self._run(name, SCHEDULER, process.command, Path(process.log))
                revived.append(f"{SCHEDULER} of {name}: {log}")
        return revived

    def give_up(self, reason: str, culprits: Iterable[Process]) -> NoReturn:
        """Raise TestBedError with the ends of the logs of processes that may be the cause."""
        logs = [Path(process.log) for process in culprits]
        text = "\n".join(f"--- {log}\n{tail(log, 8)}" for log in logs)
        raise TestBedError(f"{reason}\n{text}")

    # Implementation.

    def _of_role(self, role: Role) -> dict[str, Cluster]:
        return {name: cluster for name, cluster in self._clusters.items() if cluster.role == role}

    def _is_embedded(self, name: str, role: Role) -> bool:
        return not self._embedded.isdisjoint((name, role))

    def _prepare_directory(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        old = state_file.load(self.directory)
        if old and old.running():
            raise TestBedError(
                f"a test bed already runs in {self.directory}; end it with "
                f"`python -m hack.testbed down --dir {self.directory}` or choose another --dir"
            )
        for shared in (self.directory / "etcd", *self.directory.glob(f"{CONTROL_PLANE}*/")):
            shutil.rmtree(shared, ignore_errors=True)
        for name in old.plans if old else ():
            shutil.rmtree(self.directory / name, ignore_errors=True)

    def _start_etcd(self) -> None:
        names = ["etcd", *(f"etcd-{number}" for number in range(2, self._etcd_members + 1))]
        urls = [f"http://127.0.0.1:{port}" for port in free_ports(2 * len(names))]
        clients, peers = urls[: len(names)], dict(zip(names, urls[len(names) :], strict=True))
        self.state.etcd_url = ",".join(clients)
        binary = str(ensure(["etcd"])["etcd"])
        for name, client in zip(names, clients, strict=True):
            arguments = servers.etcd(self.directory / "etcd" / name, client, peers[name], peers)
            self._run(SHARED, name, [binary, *arguments], self.directory / f"{name}.log")

    def _start_control_planes(self) -> None:
        """Start the processes that embedded clusters share, if there are any, and wait until they serve."""
        planes = {plan.plane: plan for plan in self.state.plans.values() if plan.embedded}
        for plan in planes.values():
            self._write_tokens(plan.plane)
            self._run_control_plane(plan)
        for name, plan in planes.items():
            probe = Cluster(self, replace(plan, name=SHARED, path="", folder=self.directory / name / "pki"))
            probe.wait_for(name, lambda port=plan.port: is_served(port))  # type: ignore[misc]
            if plan.ours:
                self._run_controllers(plan)

    def _run_control_plane(self, plan: Plan) -> None:
        etcd = self.state.etcd_url if self._embedded_on_etcd else ""
        pool = self._pool if plan.role != "super" else None
        command = embedded.command(self._data(plan), plan.port, self._tokens(plan.plane), etcd, pool)
        self._run(SHARED, plan.plane, command, self.directory / f"{plan.plane}.log")

    def _run_controllers(self, plan: Plan) -> None:
        name = f"{plan.plane}-{DRIVERS}"
        self._run(SHARED, name, embedded.controllers(self._data(plan)), self.directory / f"{name}.log")

    def _run_node(self, plan: Plan, component: str) -> None:
        """Start a part of a real node, and wait until the next one can start."""
        cluster, log = self._clusters[plan.name], plan.folder / f"{component}.log"
        if component == "node":
            realnode.wait_ended(plan)
            self._forget(plan.name, REAL_NODE)  # they ended with the node's namespaces
            others = [each for each in list(self.state.plans.values()) if _is_reached(each, plan)]
            self._run(plan.name, component, realnode.namespaces(plan, others, self._services), log)
            cluster.wait_for(f"{plan.name}: namespaces of the node", lambda: realnode.init(plan) > 0)
            return
        self._run(plan.name, component, realnode.program(plan, component), log, realnode.init(plan))
        if component == "containerd":
            cluster.wait_for(f"{plan.name}: containerd", lambda: realnode.containerd_serves(plan))
            realnode.import_images(plan)

    def _forget(self, group: str, components: Iterable[str]) -> None:
        with self._lock:
            for each in components:
                self.state.processes.get(group, {}).pop(each, None)

    def _data(self, plan: Plan) -> Path:
        return self.directory / plan.plane

    def _tokens(self, plane: str) -> Path:
        return self.directory / f"{plane}.tokens.csv"

    def _write_tokens(self, plane: str) -> None:
        with self._lock:
            plans = [plan for plan in self.state.plans.values() if plan.embedded and plan.plane == plane]
            embedded.write_tokens(self._tokens(plane), plans)

    def _wait_for_etcd(self) -> None:
        probe = Cluster(self, Plan(SHARED, "meta", 0, self.directory, 0, 0, self.state.etcd_url, ""))
        probe.wait_for("etcd", lambda: bool(self._etcd("kv/range", {"key": "AA=="})))

    def _etcd(self, path: str, body: object) -> dict[str, dict[str, str]]:
        request = urllib.request.Request(  # noqa: S310 - always http://127.0.0.1
            f"{self.state.etcd_url.partition(',')[0]}/v3/{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            decoded: dict[str, dict[str, str]] = json.load(answer)
            return decoded

    def _add(self, name: str, role: Role, nodes: int, without_controllers: Sequence[str] = ()) -> Cluster:
        if name in self._clusters:
            raise ValueError(f"the test bed already has a cluster named {name!r}")
        cluster = self._plan(name, role, nodes, without_controllers)
        self._start_cluster(cluster)
        return cluster

    def _plan(self, name: str, role: Role, nodes: int, without_controllers: Sequence[str] = ()) -> Cluster:
        with self._lock:
            plans = self.state.plans.values()
            taken = {plan.index for plan in plans}
            index = next((index for index in range(MAX_CLUSTERS) if index not in taken), None)
            if index is None:
                raise TestBedError(f"a test bed holds {MAX_CLUSTERS} clusters at most")
            port, kwok_port = free_ports(2, {port for plan in plans for port in (plan.port, plan.kwok_port)})
            is_embedded = self._is_embedded(name, role)
            plan = Plan(
                name,
                role,
                index,
                self.directory / name,
                port,
                kwok_port,
                self.state.etcd_url,
                secrets.token_urlsafe(24),
                self._without_admission,
                embedded.path_of(name) if is_embedded else "",
                is_embedded and self._ours,
                nodes if role == "super" else 0,
                self._shape,
                tuple(without_controllers),
            )
            if self._real_nodes and role == "super":
                plan = replace(plan, nodes=1, real=True)
            if name in self._dual_stack:
                plan = replace(plan, dual_stack=True)
            if is_embedded:
                ports = [each.port for each in plans if each.embedded and each.plane == plan.plane]
                plan = replace(plan, port=next(iter(ports), port))
            self.state.plans[name] = plan
            self._clusters[name] = Cluster(self, plan)
        return self._clusters[name]

    def _starter(self, cluster: Cluster) -> Callable[[], None]:
        return lambda: self._start_cluster(cluster)

    def _run_concurrently(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Run all jobs concurrently; at the first failure, or an interrupt, stop the others."""
        with ThreadPoolExecutor(max_workers=max(1, len(jobs)), thread_name_prefix="testbed") as pool:
            futures: list[Future[None]] = [pool.submit(job) for job in jobs]
            try:
                done, _ = wait(futures, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
            except BaseException:
                self._stopping.set()
                raise

    def _start_cluster(self, cluster: Cluster) -> None:
        plan = cluster.plan
        write_files(plan, cluster.kubeconfig)
        if plan.embedded:
            self._write_tokens(plan.plane)
            embedded.create(plan, self._data(plan), cluster.kubeconfig)
        else:
            self.start_component(plan, "kube-apiserver")
        cluster.wait_ready()
        for component in plan.components:
            if component != "kube-apiserver":
                self.start_component(plan, component)
        if "kwok" in plan.components:
            self._create_nodes(cluster)
        cluster.wait_for(f"{cluster.name}: controllers", lambda: controllers_work(cluster))
        if plan.nodes:
            cluster.wait_for(
                f"{cluster.name}: nodes", lambda: nodes_ready(cluster), READY_SECONDS + plan.nodes / 10
            )
        self._report(f"{cluster.name} is ready: {cluster.url}")

    def _create_nodes(self, cluster: Cluster) -> None:
        with cluster.session() as session:
            for position in range(cluster.plan.nodes):
                node = servers.node(cluster.plan, position, cluster.plan.shape, KUBERNETES_VERSION)
                status, answer = session.call("POST", "/api/v1/nodes", node)
                if status != 201:
                    raise TestBedError(f"{cluster.name}: creating {node['metadata']['name']}: {answer}")

    def _run(self, group: str, component: str, command: Sequence[str], log: Path, inside: int = 0) -> None:
        with self._lock:
            if self._stopping.is_set():
                raise TestBedError("the test bed was stopped")
            process = self._spawner.start(command, log, self.directory, inside)
            self.state.processes.setdefault(group, {})[component] = process
            state_file.save(self.state, self.directory)


def tenant_names(count: int) -> tuple[str, ...]:
    """Return the names of the first `count` tenants: acme, umbrella, tenant-3, ..."""
    numbered = (f"tenant-{number}" for number in range(len(TENANT_NAMES) + 1, count + 1))
    return (*TENANT_NAMES[:count], *numbered)


def stop_recorded(directory: Path) -> int:
    """Stop the test bed that runs in `directory`, even if another process started it; return its number of servers.

    Raises:
        ValueError: the state file is not a test bed's.
        TimeoutError: a server cannot be stopped.
    """
    state = state_file.load(directory)
    if state is None:
        return 0
    running = state.running()
    stop_processes(running)
    _remove_nodes(state.plans.values())
    shutil.rmtree(directory / "etcd", ignore_errors=True)
    (directory / state_file.FILE).unlink(missing_ok=True)
    return len(running)


def _is_reached(other: Plan, plan: Plan) -> bool:
    """Return whether Pods on the real node of a cluster reach another one at the address of its Service `kubernetes.default`."""
    return other.role == "tenant" or (
        other.role == "super" and not other.embedded and other.name != plan.name
    )


def _remove_nodes(plans: Iterable[Plan]) -> None:
    for plan in plans:
        if plan.real:
            realnode.remove(plan)


def _myself() -> Process:
    pid = os.getpid()
    return Process(pid, start_time(pid) or 0, boot_id(), (), "")
