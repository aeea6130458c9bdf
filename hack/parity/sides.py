"""Starts the servers to compare: two kube-apiservers, and the embedded control plane with one tenant."""

import base64
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from hack.embedded import ControlPlane
from hack.parity.ask import Credentials, Side
from hack.testbed import TestBed

TENANT = "parity"
TWIN = "twin"
"""The second kube-apiserver, which shows the values that differ between two kube-apiservers."""
WITHOUT_ADMISSION: tuple[str, ...] = ()
"""Default plug-ins that the embedded control plane does not have."""
WEBHOOKS = ("--webhook-allow-host", "127.0.0.1:*", "--webhook-allow-network", "127.0.0.1/32")
"""Allows the embedded control plane to call the server of `hack.webhooks`."""
IDENTITY = ("--enable-bootstrap-token-auth",)
"""Authentication that the test bed's kube-apiservers enable, too."""


@contextmanager
def real(directory: Path) -> Iterator[tuple[Side, Side]]:
    """Run two kube-apiservers whose controllers are paused, so that only the requests change objects."""
    names = (TENANT, TWIN)
    with TestBed(supers=0, tenants=names, directory=directory, without_admission=WITHOUT_ADMISSION) as bed:
        for each in names:
            bed.tenants[each].pause("kube-controller-manager")
        try:
            yield side("real", bed.tenants[TENANT].kubeconfig), side("twin", bed.tenants[TWIN].kubeconfig)
        finally:
            for each in names:
                bed.tenants[each].resume("kube-controller-manager")


@contextmanager
def embedded(directory: Path) -> Iterator[Side]:
    """Run the embedded control plane with one tenant."""
    with ControlPlane(directory, arguments=(*WEBHOOKS, *IDENTITY)) as plane:
        yield side("ours", plane.create(TENANT, "--controllers", "external"))


def side(name: str, kubeconfig: Path) -> Side:
    """Return the server of an administrator's kubeconfig; its user `nobody` has no credentials."""
    content: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
    cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    admin, nobody = (ssl.create_default_context(cadata=authority) for _ in range(2))
    if "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile() as pair:
            for key in ("client-certificate-data", "client-key-data"):
                pair.write(base64.b64decode(user[key]) + b"\n")
            pair.flush()
            admin.load_cert_chain(pair.name)
    return Side(
        name,
        cluster["server"],
        {"admin": Credentials(admin, user.get("token", "")), "nobody": Credentials(nobody)},
    )
