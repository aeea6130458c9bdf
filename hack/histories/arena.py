"""Two tenants of one embedded control plane: one with kube-controller-manager, the other with vcsync's controllers."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from hack.embedded import ControlPlane
from hack.histories.endstate import WATCHED, State, current, last_state, state
from hack.histories.kubelet import Kubelet
from hack.testbed import ensure
from hack.testbed.processes import free_ports
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import PERSISTENT_VOLUMES, PODS, Resource
from vcsync.objects.envelope import Envelope

THEIRS, OURS = "theirs", "ours"
CONTROLLERS = (
    "deployment-controller,replicaset-controller,statefulset-controller,job-controller,garbage-collector-controller,"
    "serviceaccount-controller,namespace-controller,persistentvolumeclaim-protection-controller,"
    "persistentvolume-binder-controller,persistentvolume-protection-controller,horizontal-pod-autoscaler-controller,"
    "validatingadmissionpolicy-status-controller"
)


class Side:
    """One of the two tenants: its objects, and its kubelet."""

    def __init__(self, name: str, client: Client) -> None:
        """Store the tenant's name and the client of its administrator."""
        self.name = name
        self.client = client
        self.kubelet = Kubelet(client)
        self._reflectors = {each: Reflector(client, each) for each in WATCHED if each != PODS} | {
            PODS: self.kubelet.pods
        }

    async def run(self) -> None:
        """Follow changes until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.kubelet.run())
            for resource, reflector in self._reflectors.items():
                if resource != PODS:
                    tasks.create_task(reflector.run())

    async def wait_synced(self) -> None:
        """Wait until everything has been read."""
        for reflector in self._reflectors.values():
            await reflector.wait_synced()

    def objects(self, namespace: str) -> dict[Resource, list[Envelope]]:
        """Return the objects in a namespace."""
        found = {
            resource: list(each.cache.items(namespace if resource.namespaced else ""))
            for resource, each in self._reflectors.items()
        }
        mine = f"{namespace}-"
        found[PERSISTENT_VOLUMES] = [each for each in found[PERSISTENT_VOLUMES] if each.name.startswith(mine)]
        return found

    def mark(self, namespace: str) -> frozenset[tuple[str, str]]:
        """Return a value that differs whenever anything in a namespace has changed."""
        return frozenset(
            (each.uid, each.resource_version) for found in self.objects(namespace).values() for each in found
        )

    def rests(self, namespace: str) -> bool:
        """Return whether no change is expected in a namespace."""
        return current(self.objects(namespace)) and self.kubelet.idle(namespace)

    def state(self, namespace: str, *, last: bool = False) -> State:
        """Return the parts of a namespace that must be equal on both sides; `last`: at the end of a hasty history."""
        return (last_state if last else state)(self.objects(namespace))


@asynccontextmanager
async def arena(directory: Path) -> AsyncIterator[tuple[Side, Side]]:
    """Start everything; returns kube-controller-manager's side and vcsync's."""
    with _processes(directory) as kubeconfigs:
        async with AsyncExitStack() as stack:
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            sides = []
            for name, path in kubeconfigs.items():
                client = Client(Connection.from_kubeconfig_file(path), name=name)
                sides.append(Side(name, await stack.enter_async_context(client)))
            running = [tasks.create_task(side.run()) for side in sides]
            for side in sides:
                await side.wait_synced()
            yield sides[0], sides[1]
            for task in running:
                task.cancel()


@contextmanager
def _processes(directory: Path) -> Iterator[dict[str, Path]]:
    """Run a control plane and both controllers; returns the administrators' kubeconfigs by tenant."""
    programs = ensure(("kube-controller-manager",), print)
    with ControlPlane(directory) as plane:
        plane.vcsync("tenant", "create", THEIRS, "--controllers", "external")
        plane.vcsync("tenant", "create", OURS)
        plane.vcsync("tenant", "export", THEIRS, "--dir", str(directory / "keys"))
        manager = plane.kubeconfig(THEIRS, user="system:kube-controller-manager")
        keys = directory / "keys"
        theirs = [
            str(programs["kube-controller-manager"]),
            *(
                f"--kubeconfig={manager}",
                "--use-service-account-credentials",
                "--leader-elect=false",
                "--pvclaimbinder-sync-period=1s",
            ),
            *(
                "--secure-port=0",
                "--kube-api-qps=1000",
                "--kube-api-burst=2000",
                f"--controllers={CONTROLLERS}",
            ),
            *(
                f"--root-ca-file={keys / 'server-ca.crt'}",
                f"--service-account-private-key-file={keys / 'sa.key'}",
            ),
        ]
        listen = f"127.0.0.1:{free_ports(1)[0]}"
        ours = [*(sys.executable, "-m", "vcsync", "run", "controllers", "--no-leader-elect")]
        ours += ["--data", str(plane.data), "--listen", listen]
        with _running(theirs, directory / "theirs.log"), _running(ours, directory / "ours.log"):
            yield {name: plane.kubeconfig(name) for name in (THEIRS, OURS)}


@contextmanager
def _running(command: list[str], log: Path) -> Iterator[None]:
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
