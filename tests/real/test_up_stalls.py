"""`vcsync up` starts itself again when its event loop stands, and sets the tenant aside whose work did it twice."""

import re
import signal
import sys
from pathlib import Path

import pytest

from tests.real.up_kit import Up, operator
from tests.real.waiting import eventually

STALLING = """
import re, sys
from msgspec.structs import replace
from vcsync.apiserver.handlers.dispatch import Dispatcher
from vcsync.cli.command.main import main
from vcsync.controllers.manager import role

def endless():
    while True:
        pass

dispatch, deployment = Dispatcher.dispatch, role.DEPLOYMENT

async def stalling(self, incoming, info, *rest):
    if info.name == "endless":
        endless()
    if info.name == "locked":  # the expression keeps the interpreter's lock for longer than anybody lives
        re.match("(a|a)*$", "a" * 60 + "b")
    return await dispatch(self, incoming, info, *rest)

def plan(view, key):
    return endless() if key.name == "stall" else deployment.plan(view, key)

Dispatcher.dispatch = stalling
role.DEPLOYMENT = replace(deployment, plan=plan)
sys.exit(main())
"""
"""A program like vcsync's, where some names stall the event loop."""
PROGRAM = (sys.executable, "-c", STALLING)
AGAIN = "it is started again"


def serves(up: Up, tenant: str) -> bool:
    return "default" in up.kubectl("get namespaces -o name", tenant)


def answer(up: Up, arguments: str, tenant: str = "acme") -> str:
    """Return what kubectl prints, also if it fails."""
    return up.type(f"kubectl {arguments} 2>&1 || true", KUBECONFIG=str(up.data / f"{tenant}.kubeconfig"))


def is_set_aside(up: Up) -> bool:
    # Without a cached discovery, kubectl's other commands say only that it failed.
    return "tenant acme is set aside" in answer(up, "get --raw /api/v1/configmaps")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["endless", "locked"])
def test_a_request_that_stalls_twice_sets_its_tenant_aside(up: Up, name: str) -> None:
    up.start("--tenants", "acme,other", "--stall-seconds", "2", program=PROGRAM)
    for _ in range(2):  # kubectl may repeat the request itself
        answer(up, f"get configmap {name}")
        eventually(lambda: serves(up, "other"))
    eventually(lambda: is_set_aside(up))
    assert AGAIN in up.log.read_text()
    shown = operator(up, "vcsync tenant show acme -o wide")
    assert "SetAside" in shown
    assert "kind 'request'" in shown
    reports = [each.read_text() for each in (up.data / "stalls" / "controlplane").glob("2*.txt")]
    assert len(reports) == 2
    assert all("request of tenant acme" in each for each in reports)
    operator(up, "vcsync tenant release acme")
    assert serves(up, "acme")
    assert up.end(signal.SIGINT) == 0


@pytest.mark.timeout(600)
def test_a_controller_that_stalls_rests_until_its_tenant_is_released(up: Up) -> None:
    up.start("--tenants", "acme,other", "--stall-seconds", "2", program=PROGRAM)
    answer(up, "create deployment stall --image=nginx")
    # The controller comes to the object at each start, until the tenant is set aside.
    eventually(lambda: is_set_aside(up))
    eventually(lambda: serves(up, "other"))
    up.kubectl("create deployment web --image=nginx", "other")
    up.running(1, "other")
    assert "kind 'deployment-controller'" in operator(up, "vcsync tenant show acme -o wide")
    operator(up, "kubectl delete --raw /tenants/acme/apis/apps/v1/namespaces/default/deployments/stall")
    operator(up, "vcsync tenant release acme")
    up.kubectl("create deployment web --image=nginx")
    up.running(1)
    assert up.end(signal.SIGTERM) == 0


@pytest.mark.timeout(300)
def test_a_temporary_folder_survives_the_restart(up: Up) -> None:
    up.start("--ephemeral", "--tenants", "acme,other", "--stall-seconds", "2", program=PROGRAM)
    folder = re.findall(r"its CA: (\S+)/ca.crt", up.log.read_text())[0]
    up.data = Path(folder)
    up.kubectl("create configmap kept", "other")
    answer(up, "get configmap endless")
    eventually(lambda: AGAIN in up.log.read_text())
    eventually(lambda: up.kubectl("get configmap kept -o name", "other"))
    assert up.end(signal.SIGINT) == 0
    assert not up.data.parent.exists()
