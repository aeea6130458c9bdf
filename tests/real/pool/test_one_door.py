"""One address for tenants with control planes of both kinds: kubectl needs only a kubeconfig of the door."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from pool_kit import Pool, Space, is_running, pod

from hack.embedded import ControlPlane, ControlPlaneError
from tests.real.gateway_kit import Door
from tests.real.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.core

EMBEDDED = os.environ.get("VCSYNC_TENANTS", "").startswith("embedded")
"""True if the tenant's own control plane is embedded. It lets no gateway act as its administrators."""


def test_an_external_and_an_embedded_tenant_use_one_address(pool: Pool, space: Space, tmp_path: Path) -> None:
    with ControlPlane(tmp_path) as plane:
        door, control_plane = Door(plane), pool.cluster(space.tenant.name).kubeconfig
        if EMBEDDED:
            with pytest.raises(ControlPlaneError, match="cannot impersonate"):
                door.connect("outside", control_plane)
            return
        door.connect("outside", control_plane)
        plane.vcsync("tenant", "create", "inside")
        outside, inside = door.user("outside", space.name), door.user("inside", "default")

        outside.kubectl("apply", "-f", "-", stdin=json.dumps(pod("web")))
        eventually(lambda: is_running(json.loads(outside.kubectl("get", "pod", "web", "-o", "json"))))
        inside.kubectl("create", "configmap", "settings", "--from-literal=a=b")

        assert outside.kubectl("get", "pods", "-o", "name") == "pod/web\n"
        assert "settings" in inside.kubectl("get", "configmaps", "-o", "name")
        assert "settings" not in outside.kubectl("get", "configmaps", "-o", "name")
        assert "Forbidden" in inside.refused("get", "pods", "--server", f"{plane.url}/tenants/outside")
        assert "Forbidden" in outside.refused("get", "pods", "--server", f"{plane.url}/tenants/inside")
