"""Choice of the syncer that serves the resource metrics API of a tenant."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from vcsync.api import names
from vcsync.api.rbac import PART_OF, PROJECT
from vcsync.kube.errors import Forbidden, NotFound, Status
from vcsync.objects.envelope import encode, parse
from vcsync.syncer.metrics_api.registration import (
    PUBLISHER,
    Place,
    manifests,
    may_register,
    register,
    unregister,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def registered(by: str = "r2", owner: str = PROJECT, down: float | None = None) -> Any:
    conditions: list[dict[str, Any]] = [{"type": "Available", "status": "True"}]
    if down is not None:
        since = (NOW - timedelta(seconds=down)).isoformat().replace("+00:00", "Z")
        conditions = [{"type": "Available", "status": "False", "lastTransitionTime": since}]
    metadata = {"name": "x", "labels": {PART_OF: owner}, "annotations": {PUBLISHER: by}}
    return parse(encode({"metadata": metadata, "status": {"conditions": conditions}}))


def odd(status: Any) -> Any:
    return parse(encode({"metadata": {"name": "x", "labels": {PART_OF: PROJECT}}, "status": status}))


@pytest.mark.parametrize(
    ("found", "may"),
    [
        (None, True),
        (registered("r1"), True),
        (registered("r2"), False),
        (registered("r2", down=29), False),
        (registered("r2", down=30), True),
        (registered("r1", owner="metrics-server"), False),
        (registered("r2", owner="metrics-server", down=3600), False),
        (parse(encode({"metadata": {"name": "x", "labels": {PART_OF: PROJECT}}})), False),
        (odd({"conditions": 5}), False),
        (
            odd(
                {
                    "conditions": [
                        {"type": "Available", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00"}
                    ]
                }
            ),
            False,
        ),
        (
            odd({"conditions": [{"type": "Available", "status": "False", "lastTransitionTime": "never"}]}),
            False,
        ),
    ],
)
def test_a_syncer_replaces_only_what_is_its_own_or_unavailable(found: Any, may: bool) -> None:
    assert may_register(found, "r1", NOW) == may


def test_the_service_leads_to_the_syncer() -> None:
    service, api_service = manifests(Place("r1", "10.0.0.7", 10301, b"PEM"))
    assert service["spec"] == {"type": "ExternalName", "externalName": "10.0.0.7"}
    reference = api_service["spec"]["service"]
    assert reference == {"namespace": names.SYSTEM_NAMESPACE, "name": "vcsync-metrics", "port": 10301}
    assert base64.b64decode(api_service["spec"]["caBundle"]) == b"PEM"
    _, unverified = manifests(Place("r1", "10.0.0.7", 10301, None))
    assert unverified["spec"]["insecureSkipTLSVerify"] is True
    assert "caBundle" not in unverified["spec"]


class Plane:
    """A control plane with a version and perhaps an APIService, which records writes."""

    def __init__(self, version: str, found: Any = None) -> None:
        self._version, self._found = version, found
        self.writes: list[tuple[str, ...]] = []

    async def version(self) -> dict[str, str]:
        return {"gitVersion": self._version}

    async def get(self, _resource: Any, _name: str) -> Any:
        if self._found is None:
            raise NotFound(Status(404))
        if isinstance(self._found, Exception):
            raise self._found
        return self._found

    async def patch(self, resource: Any, name: str, _body: Any, namespace: str = "", **_: Any) -> None:
        self.writes.append(("patch", resource.plural, name, namespace))

    async def delete(self, resource: Any, name: str, *, uid: str) -> None:
        self.writes.append(("delete", resource.plural, name, uid))


BOTH = [
    ("patch", "services", "vcsync-metrics", names.SYSTEM_NAMESPACE),
    ("patch", "apiservices", "v1beta1.metrics.k8s.io", ""),
]


@pytest.mark.parametrize(
    ("version", "found", "writes", "state"),
    [
        ("v1.36.3", None, BOTH, "served by this syncer"),
        ("v1.36.3", registered("r1"), BOTH, "served by this syncer"),
        ("v1.36.3", registered("r2"), [], "served by the syncer of super cluster r2"),
        (
            "v1.36.3",
            registered("r1", owner="x"),
            [],
            "the tenant has a server of its own: APIService v1beta1.metrics.k8s.io",
        ),
        (
            "v1.36.3",
            Forbidden(Status(403)),
            [],
            "not permitted: run 'vcsync tenant metrics NAME --kubeconfig FILE'",
        ),
        ("v1.36.3+vcsync", None, [], "served by the embedded control plane"),
    ],
)
async def test_a_syncer_registers_itself_in_external_control_planes(
    version: str, found: Any, writes: Any, state: str
) -> None:
    plane: Any = Plane(version, found)
    assert await register(plane, Place("r1", "10.0.0.7", 10301, None), NOW) == state
    assert plane.writes == writes


@pytest.mark.parametrize(
    ("found", "removed"),
    [
        (None, False),
        (registered("r1"), True),
        (registered("r2"), False),
        (registered("r1", owner="x"), False),
    ],
)
async def test_only_its_own_registration_is_removed(found: Any, removed: bool) -> None:
    plane: Any = Plane("v1.36.3", found)
    await unregister(plane, "r1")
    assert bool(plane.writes) == removed
