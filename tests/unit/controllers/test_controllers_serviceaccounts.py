"""Every namespace has a ServiceAccount and the API server's CA."""

from controllers_world import World

from vcsync.controllers.serviceaccount.serviceaccount_plan import SERVICE_ACCOUNT, root_ca_publisher
from vcsync.kube.resources import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS

CA = "-----BEGIN CERTIFICATE-----"


def world() -> World:
    made = World([SERVICE_ACCOUNT, root_ca_publisher(CA)])
    made.put(NAMESPACES, {"metadata": {"name": "shop"}, "status": {"phase": "Active"}})
    made.settle()
    return made


def test_a_namespace_gets_a_service_account_and_the_authority() -> None:
    made = world()
    assert made.body(SERVICE_ACCOUNTS, "default", "shop")
    assert made.body(CONFIG_MAPS, "kube-root-ca.crt", "shop")["data"] == {"ca.crt": CA}


def test_deleted_objects_are_created_again() -> None:
    made = world()
    made.remove(SERVICE_ACCOUNTS, "default", "shop")
    made.remove(CONFIG_MAPS, "kube-root-ca.crt", "shop")
    made.settle()
    assert len(made.bodies(SERVICE_ACCOUNTS)) == len(made.bodies(CONFIG_MAPS)) == 1


def test_changed_objects_are_repaired() -> None:
    made = world()
    made.put(CONFIG_MAPS, {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "other"}}, "shop")
    made.settle()
    assert made.body(CONFIG_MAPS, "kube-root-ca.crt", "shop")["data"] == {"ca.crt": CA}


def test_a_terminating_namespace_gets_no_objects() -> None:
    made = World([SERVICE_ACCOUNT, root_ca_publisher(CA)])
    made.put(
        NAMESPACES,
        {"metadata": {"name": "gone", "deletionTimestamp": made.time()}, "status": {"phase": "Terminating"}},
    )
    made.settle()
    assert made.written == []
