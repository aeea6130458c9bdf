"""A tenant is served by the control plane that was registered, and by no other."""

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from vcsync.api import names
from vcsync.api.objects import VirtualCluster
from vcsync.api.specs import VirtualClusterStatus
from vcsync.kube.errors import NotFound, Status
from vcsync.tenancy.proof import WrongControlPlane, prove


class Server:
    """A control plane whose kube-system has this UID; None: it has none."""

    def __init__(self, uid: str | None) -> None:
        self.uid = uid

    async def get(self, _resource: object, name: str) -> object:
        assert name == "kube-system"
        if self.uid is None:
            raise NotFound(Status(code=404, reason="NotFound", message="namespaces not found"), endpoint="t")
        return SimpleNamespace(uid=self.uid)


def record(**annotations: str) -> VirtualCluster:
    return VirtualCluster(name="acme", namespace="vcsync", uid="vc", annotations=annotations)


@pytest.mark.parametrize("uid", ["another", None])
async def test_another_or_an_emptied_control_plane_is_refused_with_the_remedy(uid: str | None) -> None:
    server: Any = Server(uid)
    with pytest.raises(WrongControlPlane, match="vcsync tenant accept acme"):
        await prove(server, record(**{names.CONTROL_PLANE_UID: "its-own"}))


async def test_the_registered_control_plane_is_accepted() -> None:
    server: Any = Server("its-own")
    await prove(server, record(**{names.CONTROL_PLANE_UID: "its-own"}))


@pytest.mark.parametrize(("uid", "found"), [(None, ""), ("first", "first")])
async def test_without_a_record_any_control_plane_is_accepted(uid: str | None, found: str) -> None:
    server: Any = Server(uid)
    assert await prove(server, record()) == found


async def test_the_first_control_plane_is_accepted_until_an_operator_registers_another() -> None:
    first = VirtualClusterStatus(control_plane_uid="first")
    another: Any = Server("another")
    with pytest.raises(WrongControlPlane):
        await prove(another, replace(record(), status=first))
    accepted = replace(record(**{names.CONTROL_PLANE_UID: "another"}), status=first)
    assert await prove(another, accepted) == "another"
