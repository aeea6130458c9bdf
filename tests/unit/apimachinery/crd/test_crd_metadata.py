"""Metadata of custom resources, read as Go's type; and who tells their definitions' status."""

import pytest

from vcsync.apimachinery.schema.findings import DecodeError
from vcsync.apimachinery.structural import object_meta as objectmeta
from vcsync.apiserver.apiextensions import definition_controller as establish


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        (
            {"labels": {"a": 1}},
            "cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
        ),
        (
            {"labels": []},
            "cannot unmarshal array into Go struct field ObjectMeta.labels of type map[string]string",
        ),
        (
            {"finalizers": [5]},
            "cannot unmarshal number into Go struct field ObjectMeta.finalizers of type string",
        ),
        (
            {"ownerReferences": [{"apiVersion": 5}]},
            "cannot unmarshal number into Go struct field OwnerReference.ownerReferences.apiVersion of type string",
        ),
        ({"name": {}, "labels": 1}, "Go struct field ObjectMeta.labels"),
        ({"creationTimestamp": "abc"}, 'parsing time "abc"'),
        (["a"], "cannot unmarshal array into Go value of type v1.ObjectMeta"),
    ],
)
def test_what_is_of_the_wrong_type_is_refused_or_left_out(metadata, told):
    with pytest.raises(DecodeError) as why:
        objectmeta.read(metadata, lenient=False)
    assert told in str(why.value)
    assert objectmeta.read(metadata, lenient=True) == ({}, [])


def test_of_stored_metadata_only_what_is_wrong_is_left_out():
    found = objectmeta.read({"name": "a", "generation": "x", "labels": {"b": "c"}}, lenient=True)
    assert found == ({"labels": {"b": "c"}, "name": "a"}, [])


def test_unknown_members_are_told_in_order():
    assert objectmeta.read({"z": 1, "name": "a", "b": {}}, lenient=False) == ({"name": "a"}, ["b", "z"])


def test_status_of_a_definition_is_told_as_kube_apiservers():
    mine = {
        "manager": "me",
        "operation": "Update",
        "apiVersion": "apiextensions.k8s.io/v1",
        "fieldsType": "FieldsV1",
    }
    mine["fieldsV1"] = {"f:spec": {"f:group": {}}}
    before = {"metadata": {"name": "a.b", "managedFields": [mine]}, "spec": {"group": "b"}}
    after = {**before, "metadata": dict(before["metadata"])}
    after["status"] = {"acceptedNames": {"plural": "a", "kind": "A"}}
    establish.track_status(establish._without_versions(before), after, "2026-01-01T00:00:00Z")
    told = {each["manager"]: each for each in after["metadata"]["managedFields"]}
    assert told["me"] == mine
    assert told["kube-apiserver"]["subresource"] == "status"
    assert told["kube-apiserver"]["fieldsV1"].keys() == {"f:status"}
