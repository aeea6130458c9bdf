"""The target of attacks: a control plane with an attacking tenant and its victim, and the name of a missing tenant."""

import base64
import contextlib
import json
import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import quote

import yaml

from hack.attacks.client import Answer, Door
from hack.embedded import ControlPlane

ATTACKER = "mallet"
VICTIM = "victim"
NOBODY = "nobody"
"""Name of a missing tenant, as long as the victim's, so that answers can be compared byte by byte."""
MARK = "witness-5d41402abc4b"
"""Part of every object of the victim; no answer to the attacker may contain it."""
DOMAIN = "tenants.example.com"
"""Domain of tenants' host names, if the control plane is started with `HOST_NAMES`."""
HOST_NAMES = ("--tenant-domain", DOMAIN)
_KEPT: dict[str, dict[str, Any]] = {
    "/api/v1/namespaces/default/configmaps": {"data": {"a": MARK}},
    "/api/v1/namespaces/default/secrets": {"stringData": {"a": MARK}},
    "/api/v1/namespaces/default/serviceaccounts": {},
    "/api/v1/namespaces/default/services": {"spec": {"ports": [{"port": 80}]}},
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": {"rules": []},
}
_LOGGED = re.compile(
    r"Traceback|request failed|never retrieved|was never awaited|Task was destroyed|MemoryError|RecursionError"
)


@dataclass
class World:
    """A control plane under attack."""

    plane: ControlPlane
    operator: Door
    attacker: Door
    victim: Door
    anonymous: Door
    before: dict[str, bytes]

    def tenant(self, name: str) -> Door:
        """Create a tenant; returns its administrator."""
        made = self.operator.ask("POST", "/vcsync/v1/tenants", {"name": name})
        if made.status != 201:
            raise RuntimeError(f"tenant {name}: {made.message}")
        return self.user(name)

    def user(self, tenant: str, user: str = "", *groups: str) -> Door:
        """Return a user of a tenant, with a certificate of its CA; by default its administrator."""
        return door(self.plane.port, self.kubeconfig(tenant, user, *groups))

    def kubeconfig(self, tenant: str, user: str = "", *groups: str) -> str:
        """Return the kubeconfig of a tenant's user."""
        query = "&".join([f"user={quote(user)}"] * bool(user) + [f"group={quote(each)}" for each in groups])
        answer = self.operator.ask("GET", f"/vcsync/v1/tenants/{tenant}/kubeconfig?{query}")
        if answer.status != 200:
            raise RuntimeError(f"kubeconfig of {tenant}: {answer.message}")
        return answer.body.decode()

    def problems(self) -> list[str]:
        """Return the damage of an attack to the server, to the victim, or in the log; normally empty."""
        found = []
        ready = self.anonymous.ask("GET", "/readyz")
        if ready.status != 200:
            found.append(f"the process does not serve: {ready.status} {ready.message}")
        for place, before in self.before.items():
            after = self.victim.ask("GET", place)
            if after.status != 200 or items(after) != before:
                found.append(f"the victim's {place} changed: {after.status} {after.message}")
        found += [line[-800:] for line in self.plane.log.read_text().splitlines() if _LOGGED.search(line)]
        return found


@contextlib.contextmanager
def world(folder: Path, *arguments: str, etcd: str | None = None) -> Iterator[World]:
    """Start a control plane, with further arguments, perhaps on an etcd, and create an attacker and a victim."""
    with ControlPlane(folder, etcd=etcd, arguments=arguments) as plane:
        operator = door(plane.port, (plane.data / "admin.kubeconfig").read_text())
        bare = ssl.create_default_context(cafile=str(plane.data / "ca.crt"))
        bare.check_hostname = False
        found = World(plane, operator, operator, operator, Door(plane.port, bare), {})
        found.attacker, found.victim = found.tenant(ATTACKER), found.tenant(VICTIM)
        for place, rest in _KEPT.items():
            for number in range(3):
                body = {"metadata": {"name": f"kept-{number}", "annotations": {"mark": MARK}}, **rest}
                made = found.victim.ask("POST", place, body)
                if made.status != 201:
                    raise RuntimeError(f"the victim cannot create {place}: {made.message}")
        found.before = {place: items(found.victim.ask("GET", place)) for place in _KEPT}
        yield found


def items(answer: Answer) -> bytes:
    """Return the part after a list's metadata, which contains the revision that all tenants share."""
    return answer.body.partition(b'"items":')[2]


def door(port: int, kubeconfig: str) -> Door:
    """Return the credentials of a kubeconfig."""
    content = yaml.safe_load(kubeconfig)
    user, cluster = content["users"][0]["user"], content["clusters"][0]["cluster"]
    pem = b"".join(base64.b64decode(user[key]) for key in ("client-certificate-data", "client-key-data"))
    return Door(port, trusting(base64.b64decode(cluster["certificate-authority-data"]).decode(), pem))


def trusting(authority: str, pem: bytes) -> ssl.SSLContext:
    """Return TLS settings that present a certificate (PEM with its key)."""
    context = ssl.create_default_context(cadata=authority)
    context.set_alpn_protocols(["http/1.1"])
    context.check_hostname = False  # attackers ask for any host name
    with NamedTemporaryFile() as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)
    return context


def claims(token: str) -> dict[str, Any]:
    """Return the claims of a JSON web token, unverified."""
    part = token.split(".")[1]
    return dict(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))))
