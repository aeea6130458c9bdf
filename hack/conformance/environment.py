"""Where the tests run: a tenant with an external control plane and a default quota, on two hollow super clusters."""

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from hack.conformance.runner import Target
from hack.system import System, SystemFailed
from hack.testbed import TestBed, ensure
from hack.testbed.binaries import SERVERS
from hack.testbed.servers import NodeShape

TENANT = "acme"
SUPER_CLUSTERS = 2


@dataclass(frozen=True)
class Nodes:
    """The hollow nodes of each super cluster.

    All together hold the default quotas of the namespaces that tests have at once, and of those that are still going away.
    """

    count: int
    shape: NodeShape


MANY_NODES = Nodes(40, NodeShape(cpu="8", memory="32Gi"))
"""One is as large as a namespace's share of a super cluster: a test fills a node fivefold, by a fifth of its cpu each."""
FEW_NODES = Nodes(3, NodeShape(cpu="48", memory="192Gi"))
"""For tests that give each node one Pod by its host port and need some to find no room."""
DEFAULT_QUOTA = "cpu=16,memory=32Gi"
POD_POLICY = {
    "hostPath": "Allow",  # Job failure policies by exit code keep their count on the node
    "hostPort": "Allow",  # evictions: so many Pods on a node and no more
    "privileged": "Allow",  # kubectl debug adds capabilities
}
"""What the operator allows this tenant beyond the default, because tests need it."""
RUNTIME_CLASS = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "sandboxed"},
    "handler": "test-handler",
}
"""What the super clusters' nodes offer: the handler that the tests presume."""
CLUSTER_NODES = 3
"""Of an embedded control plane that is tested as a cluster; the list of tests was made with as many."""
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
"""What the tenant runs besides the tests: a tenant sees the nodes that its Pods are on, and some tests look at nodes."""


class EnvironmentFailed(Exception):
    """vcsync did not come up, or does not do its work; the text says what, and where to look."""


class Environment:
    """A test bed with vcsync on it.

    Args:
        directory: for data and logs.
        nodes: of each super cluster.
    """

    def __init__(self, directory: Path, nodes: Nodes = MANY_NODES) -> None:
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
            EnvironmentFailed: vcsync did not come up.
            TestBedError: a server did not come up.
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
        except SystemFailed as error:
            raise EnvironmentFailed(str(error)) from None
        self._settle()

    def stop(self) -> None:
        """End what runs."""
        self._running.close()

    @property
    def target(self) -> Target:
        """The tenant, for the tests."""
        tenant = self._bed.tenants[TENANT]
        nodes = SUPER_CLUSTERS * self._nodes
        return Target(self._programs["e2e.test"], self._programs["kubectl"], tenant.kubeconfig, nodes)

    def _prepare(self) -> None:
        """What an operator does for this tenant: the Pod policy, and a runtime in the super clusters."""
        for cluster in self._bed.supers.values():
            cluster.kubectl("apply", "-f", "-", input=json.dumps(RUNTIME_CLASS))
        patch = json.dumps({"spec": {"podPolicy": POD_POLICY}})
        self._bed.meta.kubectl("patch", "virtualcluster", TENANT, "-n", "vcsync", "--type=merge", "-p", patch)

    def _start_roles(self, system: System) -> None:
        """Start the schedulers when every super cluster is known to be ready, so that each gets its part."""
        system.start(*(f"syncer-{name}" for name in self._bed.supers))
        self._bed.meta.kubectl(
            "wait", "supercluster", "--all", "--for=condition=Ready", "--timeout=120s", timeout=130
        )
        system.start("nsscheduler", "podscheduler")

    def _settle(self) -> None:
        """Let the tenant's own Pods run, on both super clusters, so that nodes are there to be seen."""
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
    """One embedded control plane as if it were a cluster of its own.

    Real kube-controller-manager, kube-scheduler and hollow nodes (kwok) work on it; vcsync's own roles do not run.

    Args:
        directory: for data and logs.
        content_type: the media type in which the test program speaks, its default (protobuf) where empty.
    """

    def __init__(self, directory: Path, content_type: str = "") -> None:
        self._bed = TestBed(supers=1, nodes=CLUSTER_NODES, tenants=0, directory=directory, embedded={"super"})
        self._running = ExitStack()
        self._flags = (f"--kube-api-content-type={content_type}",) if content_type else ()
        self._programs = ensure((*SERVERS, "e2e.test"), print)

    def start(self) -> None:
        """Start everything.

        Raises:
            TestBedError: a server did not come up.
        """
        self._running.enter_context(self._bed)

    def stop(self) -> None:
        """End what runs."""
        self._running.close()

    @property
    def target(self) -> Target:
        """The embedded cluster, for the tests."""
        (cluster,) = self._bed.supers.values()
        return Target(
            self._programs["e2e.test"],
            self._programs["kubectl"],
            cluster.kubeconfig,
            CLUSTER_NODES,
            self._flags,
        )
