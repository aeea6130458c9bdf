"""Every tenant has the network `default`; each network has a DNS Service, and a status that is true."""

import pytest
from controllers_world import TENANT, World

from vcsync.api.networks import NETWORKS
from vcsync.controllers.framework.mirror import Key
from vcsync.controllers.framework.plan import Create, Patch
from vcsync.controllers.network.network_plan import GATHER_SECONDS, NETWORK, UNENFORCED
from vcsync.kube.cache import Change
from vcsync.kube.errors import Forbidden, Status
from vcsync.kube.resources import CONFIG_MAPS, NAMESPACES, SERVICES

NAME_SERVER = {
    "metadata": {"name": "kube-dns"},
    "spec": {
        "clusterIP": "10.0.0.10",
        "selector": {"app": "names"},
        "ports": [{"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 5353, "nodePort": 30053}],
    },
}


class Tenant(World):
    """A tenant with kube-system, whose API server allocates addresses."""

    def __init__(self) -> None:
        super().__init__([NETWORK])
        self.put(NAMESPACES, {"metadata": {"name": "kube-system"}})

    def begin(self, tenant: str = TENANT) -> None:
        """Reconcile the network `default`, as the first event of a tenant does."""
        self.work("network-controller", Key(tenant, "", "default"))

    def settle(self, rounds: int = 200) -> None:
        super().settle(rounds)
        for number, each in enumerate(self.bodies(SERVICES)):
            if "clusterIP" not in each["spec"]:
                spec = {"clusterIP": f"10.0.1.{number}"}
                self.change(SERVICES, each["metadata"]["name"], {"spec": spec}, "kube-system")
        super().settle(rounds)

    def network(self, name: str = "default", **spec: str) -> None:
        self.put(NETWORKS, {"metadata": {"name": name}, "spec": {"type": "Flat", **spec}})

    def condition(self, kind: str, name: str = "default") -> dict[str, object]:
        (found,) = [
            each for each in self.body(NETWORKS, name)["status"]["conditions"] if each["type"] == kind
        ]
        return dict(found)


def test_a_tenant_gets_a_network_with_a_dns_service() -> None:
    made = Tenant()
    made.begin()
    made.settle()
    found = made.body(NETWORKS, "default")
    service = made.body(SERVICES, "kube-dns-default", "kube-system")
    assert found["spec"] == {"type": "Flat"}
    assert (found["status"]["phase"], found["status"]["dnsServiceIP"]) == ("Ready", "10.0.1.0")
    assert service["spec"]["selector"] == {"k8s-app": "kube-dns"}
    assert [each["protocol"] for each in service["spec"]["ports"]] == ["UDP", "TCP"]
    assert service["metadata"]["ownerReferences"][0]["uid"] == found["metadata"]["uid"]
    assert service["metadata"]["labels"] == {"tenancy.x-k8s.io/network": "default"}


def test_nothing_is_said_to_be_enforced_or_answered_that_is_not() -> None:
    made = Tenant()
    made.network("blue", type="VPC", vpcID="v-1")
    made.settle()
    enforced, names = made.condition("Enforced", "blue"), made.condition("NameServer", "blue")
    assert (enforced["status"], enforced["reason"], enforced["message"]) == (
        "False",
        "NoDataPlane",
        UNENFORCED,
    )
    assert (names["status"], names["reason"]) == ("False", "NoNameServer")
    assert "install a name server" in str(names["message"])


def test_the_service_follows_the_tenants_name_server() -> None:
    made = Tenant()
    made.begin()
    made.settle()
    made.put(SERVICES, NAME_SERVER, "kube-system")
    made.settle()
    spec = made.body(SERVICES, "kube-dns-default", "kube-system")["spec"]
    assert spec["selector"] == {"app": "names"}
    assert spec["ports"] == [{"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 5353}]
    assert made.condition("NameServer")["status"] == "True"
    assert made.body(NETWORKS, "default")["status"]["dnsServiceIP"] == spec["clusterIP"]
    made.remove(SERVICES, "kube-dns", "kube-system")
    made.settle()
    spec = made.body(SERVICES, "kube-dns-default", "kube-system")["spec"]
    assert spec["selector"] == {"k8s-app": "kube-dns"}
    assert made.condition("NameServer")["status"] == "False"


def test_a_name_server_that_selects_no_pods_is_none() -> None:
    made = Tenant()
    made.network()
    made.put(SERVICES, {"metadata": {"name": "kube-dns"}, "spec": {"clusterIP": "None"}}, "kube-system")
    made.settle()
    assert made.condition("NameServer")["reason"] == "NoNameServer"
    assert made.body(SERVICES, "kube-dns-default", "kube-system")["spec"]["selector"] == {
        "k8s-app": "kube-dns"
    }


def test_a_headless_name_server_without_ports_has_the_usual_ones() -> None:
    made = Tenant()
    made.network()
    headless = {"metadata": {"name": "kube-dns"}, "spec": {"clusterIP": "None", "selector": {"app": "names"}}}
    made.put(SERVICES, headless, "kube-system")
    made.settle()
    spec = made.body(SERVICES, "kube-dns-default", "kube-system")["spec"]
    assert spec["selector"] == {"app": "names"}
    assert [(each["port"], each["protocol"]) for each in spec["ports"]] == [(53, "UDP"), (53, "TCP")]
    assert made.condition("NameServer")["status"] == "True"


def test_updates_are_collected_so_that_nobody_causes_a_loop_of_writes() -> None:
    made = Tenant()
    made.network()
    envelope = made.shelves[NETWORKS].get(TENANT, "", "default")
    assert envelope is not None
    for number in (0, 2):
        gather = NETWORK.watches[number].gather
        assert gather is not None
        key = Key(TENANT, "", "default")
        waits = [
            gather(Change(old, new), made.view(), key)
            for old, new in ((None, envelope), (envelope, None), (envelope, envelope))
        ]
        assert waits == [0.0, 0.0, GATHER_SECONDS]


def test_what_a_tenant_changes_is_repaired() -> None:
    made = Tenant()
    made.network()
    made.settle()
    right = made.body(NETWORKS, "default")["status"]
    lie = {
        "phase": "Failed",
        "dnsServiceIP": "8.8.8.8",
        "conditions": [
            {**made.condition("Enforced"), "status": "True"},
            {**made.condition("Enforced"), "type": "Isolated", "status": "True"},
        ],
    }
    made.change(NETWORKS, "default", {"status": lie})
    made.change(SERVICES, "kube-dns-default", {"spec": {"selector": {"app": "other"}}}, "kube-system")
    made.settle()
    assert made.body(NETWORKS, "default")["status"] == right
    assert made.body(SERVICES, "kube-dns-default", "kube-system")["spec"]["selector"] == {
        "k8s-app": "kube-dns"
    }
    made.remove(SERVICES, "kube-dns-default", "kube-system")
    made.settle()
    assert made.body(NETWORKS, "default")["status"]["phase"] == "Ready"


def test_a_status_that_cannot_be_read_is_written_again() -> None:
    made = Tenant()
    made.put(NETWORKS, {"metadata": {"name": "default"}, "spec": {"type": "Flat"}, "status": {"phase": 7}})
    made.settle()
    assert made.body(NETWORKS, "default")["status"]["phase"] == "Ready"


def test_a_settled_network_is_not_written_again() -> None:
    made = Tenant()
    made.network()
    made.settle()
    before = len(made.written)
    made.pass_time(3600)
    made.settle()
    assert len(made.written) == before


def test_a_service_of_somebody_else_is_left_alone() -> None:
    made = Tenant()
    made.network()
    theirs = {
        "metadata": {"name": "kube-dns-default"},
        "spec": {"clusterIP": "10.0.0.7", "selector": {"a": "b"}},
    }
    made.put(SERVICES, theirs, "kube-system")
    made.settle()
    status = made.body(NETWORKS, "default")["status"]
    assert status["phase"] == "Failed"
    assert status["message"].startswith("there is another Service kube-system/kube-dns-default: delete it")
    assert "dnsServiceIP" not in status
    assert made.body(SERVICES, "kube-dns-default", "kube-system")["spec"]["selector"] == {"a": "b"}
    made.remove(SERVICES, "kube-dns-default", "kube-system")
    made.settle()
    assert made.body(NETWORKS, "default")["status"]["phase"] == "Ready"


@pytest.mark.parametrize("action", [Create, Patch])
def test_a_refused_write_is_told(action: type) -> None:
    made = Tenant()
    made.network()
    if action is Patch:
        made.settle()
        made.put(SERVICES, NAME_SERVER, "kube-system")
    made.refusals = [(action, Forbidden(Status(403, "Forbidden", "exceeded quota")))]
    made.work("network-controller", Key(TENANT, "", "default"))
    status = made.body(NETWORKS, "default")["status"]
    assert status["phase"] == "Failed"
    assert status["message"] == "Service kube-system/kube-dns-default cannot be written: exceeded quota"


def test_a_network_that_is_being_deleted_gets_no_service() -> None:
    made = Tenant()
    metadata = {"name": "blue", "deletionTimestamp": made.time(), "finalizers": ["example.com/wait"]}
    made.put(NETWORKS, {"metadata": metadata, "spec": {"type": "Flat"}})
    made.settle()
    assert made.bodies(SERVICES) == []
    status = made.body(NETWORKS, "blue")["status"]
    assert (status["phase"], status["message"]) == (
        "Terminating",
        "waits for its finalizers: example.com/wait",
    )


def test_only_default_is_made_and_only_where_the_pool_runs_pods() -> None:
    made = Tenant()
    made.work("network-controller", Key(TENANT, "", "blue"))
    made.begin("system")
    own = {"metadata": {"name": f"{TENANT}.controllers"}, "data": {"controllers": "vcsync", "nodes": "own"}}
    made.put(CONFIG_MAPS, own, "kube-system")
    assert made.written == []


def test_nothing_is_made_without_kube_system() -> None:
    made = Tenant()
    made.put(NAMESPACES, {"metadata": {"name": "kube-system", "deletionTimestamp": made.time()}})
    made.begin()
    made.remove(NAMESPACES, "kube-system")
    made.begin()
    assert made.written == []


def keys(made: Tenant, number: int, resource: object, name: str, namespace: str = "kube-system") -> set[Key]:
    watch = NETWORK.watches[number]
    assert watch.resource == resource
    shelf = made.shelves[watch.resource]
    envelope = shelf.get(TENANT, namespace if watch.resource.namespaced else "", name)
    assert envelope is not None
    return {
        each
        for change in (Change(None, envelope), Change(envelope, None))
        for each in watch.keys(change, made.view())
    }


def test_changes_concern_the_networks_that_depend_on_them() -> None:
    made = Tenant()
    for name in ("default", "blue"):
        made.network(name)
    for name in ("kube-dns", "kube-dns-blue", "kube-dns-red", "blue"):
        made.put(SERVICES, {"metadata": {"name": name}, "spec": {}}, "kube-system")
    made.put(SERVICES, {"metadata": {"name": "kube-dns"}, "spec": {}}, "shop")
    made.put(NAMESPACES, {"metadata": {"name": "shop"}})
    default, blue = Key(TENANT, "", "default"), Key(TENANT, "", "blue")
    assert keys(made, 0, NETWORKS, "blue") == {blue}
    assert keys(made, 1, NAMESPACES, "kube-system") == {default}
    assert keys(made, 1, NAMESPACES, "shop") == set()
    assert keys(made, 2, SERVICES, "kube-dns") == {default, blue}
    assert keys(made, 2, SERVICES, "kube-dns-blue") == {blue}
    assert keys(made, 2, SERVICES, "kube-dns-red") == keys(made, 2, SERVICES, "blue") == set()
    assert keys(made, 2, SERVICES, "kube-dns", "shop") == set()
