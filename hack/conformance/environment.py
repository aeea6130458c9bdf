"""The tests' environment: a tenant with an external control plane and a default quota, on two hollow super clusters."""

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from hack.conformance.runner import Target
from hack.embedded import ControlPlane, ControlPlaneError
from hack.system import System, SystemFailed
from hack.testbed import TestBed, ensure
from hack.testbed.binaries import SERVERS
from hack.testbed.plan import NodeShape
from vcsync.api import names

TENANT = "acme"
SUPER_CLUSTERS = 2


@dataclass(frozen=True)
class Nodes:
    """The hollow nodes of each super cluster.

    Together they have room for the default quotas of the namespaces of concurrent tests, including terminating ones.
    """

    count: int
    shape: NodeShape


MANY_NODES = Nodes(40, NodeShape(cpu="8", memory="32Gi"))
"""A node is as large as a namespace's share of a super cluster, because a test fills a node with five Pods that each
request a fifth of its cpu."""
FEW_NODES = Nodes(3, NodeShape(cpu="48", memory="192Gi"))
"""For tests that run one Pod per node by means of a host port, and expect that some Pods find no node."""
DEFAULT_QUOTA = "cpu=16,memory=32Gi"
POD_POLICY = {
    # Job failure policies by exit code keep their count on the node.
    "hostPath": "Allow",
    # Tests of evictions limit the Pods of a node by host ports.
    "hostPort": "Allow",
    # kubectl debug adds capabilities.
    "privileged": "Allow",
}
"""Permissions beyond the default that the operator gives this tenant, because tests need them."""
IMPERSONATED = ("--group", "developers", "--extra", "known-languages")
"""Group and extra values that a test of SelfSubjectReviews impersonates."""
RUNTIME_CLASS = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "sandboxed", "labels": {names.SUPER_PUBLIC: names.TRUE}},
    "handler": "test-handler",
}
"""The runtime handler that the tests expect on the super clusters' nodes."""
CLUSTER_NODES = 3
"""Nodes of an embedded control plane that is tested as a cluster; the list of tests was recorded with this number."""
RESIDENT_PODS = 8
RESIDENT_SECONDS = 60.0

RESIDENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "resident", "namespace": "default"},
    "spec": {
        "replicas": RESIDENT_PODS,
        "selector": {"matchLabels": {"app": "resident"}},
        "template": {
            "metadata": {"labels": {"app": "resident"}},
            "spec": {
                "containers": [{"name": "web", "image": "web", "resources": {"requests": {"cpu": "1"}}}],
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": "kubernetes.io/hostname",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": {"app": "resident"}},
                    }
                ],
            },
        },
    },
}
"""A Deployment of the tenant: a tenant sees only the nodes of its Pods, and some tests read nodes."""


class EnvironmentFailed(Exception):
    """vcsync did not start or does not work; the text names the failure and the logs."""


class Environment:
    """A test bed with vcsync.

    Args:
        directory: for data and logs.
        nodes: of each super cluster.
        door: whether the tests reach the tenant through an embedded control plane, which forwards their requests.
    """

    def __init__(self, directory: Path, nodes: Nodes = MANY_NODES, *, door: bool = False) -> None:
        self._door = door
        self._nodes = nodes.count
        self._bed = TestBed(
            supers=SUPER_CLUSTERS,
            nodes=nodes.count,
            tenants=(TENANT,),
            directory=directory,
            node_shape=nodes.shape,
        )
        self._directory = directory
        self._programs = ensure((*SERVERS, "e2e.test"), print)
        self._running = ExitStack()

    def start(self) -> None:
        """Start everything, and wait until the tenant's own Pods run.

        Raises:
            EnvironmentFailed: vcsync did not start.
            TestBedError: a server did not start.
        """
        self._running.enter_context(self._bed)
        system = System(
            self._bed, self._directory / "vcsync", tenant_options={TENANT: ("--default-quota", DEFAULT_QUOTA)}
        )
        self._running.callback(system.stop)
        try:
            system.install()
            self._prepare()
            self._start_roles(system)
            if self._door:
                self._open_door()
        except (SystemFailed, ControlPlaneError) as error:
            raise EnvironmentFailed(str(error)) from None
        self._settle()

    def stop(self) -> None:
        """Stop all processes."""
        self._running.close()

    @property
    def target(self) -> Target:
        """Return the tenant, for the tests."""
        nodes = SUPER_CLUSTERS * self._nodes
        return Target(self._programs["e2e.test"], self._programs["kubectl"], self._kubeconfig, nodes)

    @property
    def _kubeconfig(self) -> Path:
        return self._directory / "door.kubeconfig" if self._door else self._bed.tenants[TENANT].kubeconfig

    def _open_door(self) -> None:
        """Connect the tenant's API server with an embedded control plane."""
        plane = self._running.enter_context(ControlPlane(self._directory / "door"))
        direct = str(self._bed.tenants[TENANT].kubeconfig)
        plane.vcsync("tenant", "connect", TENANT, "--kubeconfig", direct, *IMPERSONATED)
        self._kubeconfig.touch(mode=0o600)
        self._kubeconfig.write_text(plane.vcsync("tenant", "kubeconfig", TENANT))

    def _prepare(self) -> None:
        """Set up the tenant as an operator: the Pod policy, and a runtime in the super clusters."""
        for cluster in self._bed.supers.values():
            cluster.kubectl("apply", "-f", "-", input=json.dumps(RUNTIME_CLASS))
        patch = json.dumps({"spec": {"podPolicy": POD_POLICY}})
        self._bed.meta.kubectl("patch", "virtualcluster", TENANT, "-n", "vcsync", "--type=merge", "-p", patch)

    def _start_roles(self, system: System) -> None:
        """Start the schedulers when every super cluster is ready, so that each gets its share."""
        system.start(*(f"syncer-{name}" for name in self._bed.supers))
        self._bed.meta.kubectl(
            "wait", "supercluster", "--all", "--for=condition=Ready", "--timeout=120s", timeout=130
        )
        system.start("nsscheduler", "podscheduler")

    def _settle(self) -> None:
        """Run the tenant's own Pods on both super clusters, so that it sees nodes."""
        tenant = self._bed.tenants[TENANT]
        tenant.kubectl("apply", "-f", "-", input=json.dumps(RESIDENT))
        deadline = time.monotonic() + RESIDENT_SECONDS
        while True:
            _, found = tenant.call("GET", "/apis/apps/v1/namespaces/default/deployments/resident")
            ready = found.get("status", {}).get("readyReplicas", 0)
            if ready == RESIDENT_PODS:
                return
            if time.monotonic() > deadline:
                raise EnvironmentFailed(
                    f"{ready} of {RESIDENT_PODS} Pods of tenant {TENANT} run after {RESIDENT_SECONDS:.0f} s; "
                    f"see the logs in {self._directory / 'vcsync'}"
                )
            time.sleep(0.25)


class EmbeddedEnvironment:
    """One embedded control plane used as a whole cluster.

    Real kube-controller-manager, kube-scheduler and hollow nodes (kwok) work on it; vcsync's own roles do not run.

    Args:
        directory: for data and logs.
        content_type: media type that the test program uses; empty: its default (protobuf).
    """

    def __init__(self, directory: Path, content_type: str = "") -> None:
        self._bed = TestBed(supers=1, nodes=CLUSTER_NODES, tenants=0, directory=directory, embedded={"super"})
        self._running = ExitStack()
        self._flags = (f"--kube-api-content-type={content_type}",) if content_type else ()
        self._programs = ensure((*SERVERS, "e2e.test"), print)

    def start(self) -> None:
        """Start everything.

        Raises:
            TestBedError: a server did not start.
        """
        self._running.enter_context(self._bed)

    def stop(self) -> None:
        """Stop all processes."""
        self._running.close()

    @property
    def target(self) -> Target:
        """Return the embedded cluster, for the tests."""
        (cluster,) = self._bed.supers.values()
        return Target(
            self._programs["e2e.test"],
            self._programs["kubectl"],
            cluster.kubeconfig,
            CLUSTER_NODES,
            self._flags,
        )
