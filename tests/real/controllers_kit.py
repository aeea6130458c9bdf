"""Helpers for our controllers: run them as a process for a control plane, and wait for their effects."""

import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from hack.embedded import ControlPlane
from hack.testbed.processes import free_ports
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import Resource

PATIENCE = 60.0


@contextmanager
def controllers(plane: ControlPlane) -> Iterator[int]:
    """Run the controllers until the block ends; the block starts when they are ready, and gets the id of their process."""
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    command = [sys.executable, "-m", "vcsync", "run", "controllers", "--no-leader-elect"]
    with (plane.directory / "controllers.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "--data", str(plane.data), "--listen", listen], stdout=log, stderr=log
        )
    try:
        _wait_ready(f"http://{listen}/readyz")
        yield process.pid
    finally:
        process.terminate()
        process.wait(30)


def _wait_ready(url: str) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            assert time.monotonic() < end, "the controllers are not ready"
            time.sleep(0.05)


async def gone(client: Client, resource: Resource, name: str, namespace: str = "") -> bool:
    """Return whether an object does not exist."""
    try:
        await client.get(resource, name, namespace)
    except NotFound:
        return True
    return False


async def there(client: Client, resource: Resource, name: str, namespace: str = "") -> bool:
    """Return whether an object exists."""
    return not await gone(client, resource, name, namespace)
