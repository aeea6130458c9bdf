"""Volumes that an operator makes by hand reach the claim that they name, and no other one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pool_kit import Json, Pool, Space, read, super_of
from volume_kit import CLAIMS, bound, claim, holders, shown, user, volume_of

from hack.testbed.provisioner import storage_class
from tests.real.waiting import eventually

CLASS = "archive"
PATH = "/srv/archive-of-the-operator"
VOLUMES = "/api/v1/persistentvolumes"


@pytest.fixture(scope="module")
def archive(pool: Pool) -> Iterator[Pool]:
    """The pool, whose operator publishes a class of volumes that are made by hand, in r1 only."""
    body = storage_class(
        CLASS,
        provisioner="kubernetes.io/no-provisioner",
        parameters=None,
        allowVolumeExpansion=False,
        volumeBindingMode="WaitForFirstConsumer",
        reclaimPolicy="Retain",
    )
    cluster = pool.supers["r1"]
    cluster.kubectl("apply", "-f", "-", input=json.dumps(body))
    yield pool
    cluster.kubectl("delete", "storageclass", CLASS)


@contextmanager
def volume_for(space: Space, name: str) -> Iterator[str]:
    """Make a volume for one claim of a tenant in r1, as the operator, until the block ends; yield its name."""
    made = f"archive-of-{space.name}"
    body: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": made},
        "spec": {
            "capacity": {"storage": "128Mi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": PATH},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": space.super_name,
                "name": name,
            },
        },
    }
    cluster = space.pool.supers["r1"]
    cluster.kubectl("apply", "-f", "-", input=json.dumps(body))
    try:
        yield made
    finally:
        cluster.kubectl("delete", "pv", made, "--wait=false")


@pytest.fixture
def library(archive: Pool) -> Iterator[Space]:
    with archive.space() as space:
        eventually(lambda: shown(space, CLASS) == "r1")
        yield space


def test_a_claim_gets_the_volume_that_names_it(library: Space) -> None:
    with volume_for(library, "books") as made:
        library.apply(claim("books", CLASS), user("reader", "books"))
        assert super_of(library.running("reader")) == "r1"
        found = bound(library, "books")
        assert found["status"]["capacity"] == {"storage": "128Mi"}
        assert holders(library, "books") == ["r1"]
        copy = library.there("r1", CLAIMS, "books")
        assert copy is not None
        assert copy["spec"]["volumeName"] == made
        text = json.dumps(volume_of(library, found)) + json.dumps(found)
        assert all(hidden not in text for hidden in (PATH, made, library.super_name))


def test_no_other_claim_gets_it(library: Space) -> None:
    with volume_for(library, "books") as made:
        library.apply(claim("others", CLASS), user("early", "others"))
        eventually(lambda: library.there("r1", "pods", "early") is not None)
        library.apply(claim("books", CLASS), user("rightful", "books"))
        library.running("rightful")
        volumes = {}
        for name in ("others", "books"):
            copy = library.there("r1", CLAIMS, name)
            assert copy is not None
            volumes[name] = copy["spec"].get("volumeName")
        assert volumes == {"others": None, "books": made}


def test_the_data_of_a_deleted_claim_stays_with_the_operator(library: Space) -> None:
    with volume_for(library, "books") as made:
        library.apply(claim("books", CLASS), user("reader", "books"))
        library.running("reader")
        bound(library, "books")
        library.kubectl("delete", "pod", "reader")
        library.kubectl("delete", "pvc", "books")
        eventually(lambda: library.there("r1", CLAIMS, "books") is None)

        def released() -> bool:
            found = read(library.pool.supers["r1"], f"{VOLUMES}/{made}")
            return found is not None and found["status"]["phase"] == "Released"

        eventually(released)
