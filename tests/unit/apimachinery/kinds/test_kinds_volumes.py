"""Volumes of Pods and PersistentVolumes: what upstream refuses of their sources, drops of them, and warns of."""

from copy import deepcopy

import pytest

from vcsync.apimachinery.kinds.all_kinds import KINDS
from vcsync.apimachinery.kinds.behaviours import BEHAVIOURS
from vcsync.apimachinery.kinds.core import (
    disabled_fields,
    persistent_volume,
    persistent_volume_claim,
    volume_sources,
)

ISCSI = {"targetPortal": "192.0.2.1:3260", "iqn": "iqn.2026-01.example:x"}


def _volume(**source):
    return {
        "metadata": {"name": "v"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "volumeMode": "Filesystem",
            **source,
        },
    }


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"hostPath": {"path": "/x"}, "cephfs": {"monitors": ["m"]}}, ["spec.cephFS"]),
        ({"hostPath": {"path": "/x"}, "flexVolume": {"driver": "d"}}, []),
        (
            {"hostPath": {"path": "/x"}, "capacity": {"storage": "-1"}},
            ["spec.capacity[storage]", "spec.capacity[storage]"],
        ),
        ({"hostPath": {"path": "/x"}, "capacity": {"storage": "0"}}, ["spec.capacity[storage]"]),
        (
            {"azureDisk": {"diskName": "d", "diskURI": "/subscriptions/x", "kind": "Shared"}},
            ["spec.azureDisk.diskURI"],
        ),
        ({"azureDisk": {"diskName": "d", "diskURI": "/subscriptions/x", "kind": "Managed"}}, []),
        ({"azureFile": {"secretName": "s", "shareName": "h", "secretNamespace": None}}, []),
        (
            {"azureFile": {"secretName": "s", "shareName": "h", "secretNamespace": ""}},
            ["spec.azureFile.secretNamespace"],
        ),
        (
            {"cinder": {"volumeID": "v", "secretRef": {}}},
            ["spec.cinder.secretRef.name", "spec.cinder.secretRef.namespace"],
        ),
        (
            {"glusterfs": {"endpoints": "e", "path": "p", "endpointsNamespace": "No"}},
            ["spec.glusterfs.endpointsNamespace"],
        ),
        ({"iscsi": ISCSI}, []),
        ({"iscsi": {**ISCSI, "iqn": "x"}}, ["spec.iscsi.iqn"]),
        ({"iscsi": {**ISCSI, "iqn": "eui.short"}}, ["spec.iscsi.iqn"]),
        (
            {"iscsi": {**ISCSI, "initiatorName": "x", "secretRef": {}}},
            ["spec.iscsi.secretRef.name", "spec.iscsi.initiatorname"],
        ),
        ({"quobyte": {"registry": "r", "volume": "v"}}, ["spec.quobyte.registry"]),
        ({"quobyte": {"registry": "r:1,[::1]:2", "volume": "v"}}, []),
        ({"quobyte": {"registry": "r:1", "volume": "v", "tenant": "t" * 65}}, ["spec.quobyte.tenant"]),
        (
            {"storageos": {"volumeName": "Not one", "secretRef": {"name": "s"}}},
            ["spec.storageos.volumeName", "spec.storageos.secretRef.namespace"],
        ),
    ],
)
def test_what_is_wrong_with_a_persistent_volume(source, expected):
    found = BEHAVIOURS["", "PersistentVolume"].validate(_volume(**source))
    assert [each.field for each in found] == expected


def test_an_update_tells_what_is_wrong_with_a_persistent_volume_twice():
    old = _volume(hostPath={"path": "/x"})
    new = _volume(hostPath={"path": "/x"}, nfs={"server": "s", "path": "/y"})
    found = BEHAVIOURS["", "PersistentVolume"].validate_update(new, old)
    assert [each.field for each in found] == ["spec.nfs", "spec.nfs", "spec.persistentvolumesource"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            {"rbd": {"monitors": ["m"], "image": "i"}},
            ["spec.rbd: deprecated in v1.28, non-functional in v1.31+"],
        ),
        (
            {"storageos": {"volumeName": "v"}},
            ["spec.storageOS: deprecated in v1.22, non-functional in v1.25+"],
        ),
        ({"hostPath": {"path": "/x"}}, []),
    ],
)
def test_deprecated_sources_are_warned_of(source, expected):
    assert BEHAVIOURS["", "PersistentVolume"].warnings(_volume(**source), None) == expected


@pytest.mark.parametrize(
    ("pair", "expected"),
    [("r:1", True), ("[::1]:1", True), ("r", False), ("r:1:2", False), ("[::1]", False), ("[a]b:1", False)],
)
def test_pairs_are_those_of_go(pair, expected):
    assert volume_sources._is_pair(pair) is expected


def _pod(spec):
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **deepcopy(spec)},
    }


DISABLED = {
    "schedulingGroup": {"name": "g"},
    "containers": [{"name": "c", "image": "i", "lifecycle": {"stopSignal": "SIGTERM"}}],
    "volumes": [
        {"name": "v", "projected": {"sources": [{"clusterTrustBundle": {}}, {"podCertificate": {}}]}}
    ],
}


@pytest.mark.parametrize("declared", [each for each in KINDS if each.pod_spec], ids=lambda each: each.kind)
def test_fields_of_disabled_features_are_dropped_from_pods_and_templates(declared):
    found = {"metadata": {}, "spec": {}}
    holder = found
    for name in declared.pod_spec[:-1]:
        holder = holder.setdefault(name, {})
    holder["spec"] = deepcopy(DISABLED)
    disabled_fields.drop(declared.pod_spec, found)
    assert holder["spec"] == {
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "projected": {"sources": [{}, {}]}}],
    }


def test_fields_of_disabled_features_stay_where_they_were_in_use():
    found = _pod(DISABLED)
    disabled_fields.drop(("spec",), found, _pod(DISABLED))
    assert found == _pod(DISABLED)


def test_an_object_without_pods_is_left_alone():
    found = {"spec": deepcopy(DISABLED)}
    disabled_fields.drop(None, found)
    assert found == {"spec": DISABLED}


def test_a_projected_volume_without_sources_is_warned_of():
    volumes = [{"name": "v", "projected": {"sources": [{}]}}]
    told = BEHAVIOURS["", "Pod"].warnings(_pod({"volumes": volumes}), None)
    assert told == ['volume "v" (Projected) has no sources provided']


STATUS = {
    "nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "x"}],
    "containerStatuses": [{"name": "c", "volumeMounts": [{"name": "v", "volumeStatus": {"image": {}}}]}],
}


def test_status_of_disabled_features_is_dropped():
    found = {"status": deepcopy(STATUS)}
    disabled_fields.drop_status(found, {})
    assert found["status"] == {"containerStatuses": [{"name": "c", "volumeMounts": [{"name": "v"}]}]}
    kept = {"status": deepcopy(STATUS)}
    disabled_fields.drop_status(kept, {"status": STATUS})
    assert kept["status"] == STATUS


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (
            {"containerStatuses": [{"name": "c", "allocatedResourcesStatus": [{"name": "x"}]}]},
            ["containerStatuses[0].allocatedResourcesStatus[0].name"],
        ),
        ({"containerStatuses": [{"name": "other", "allocatedResourcesStatus": [{"name": "x"}]}]}, []),
        (
            {"containerStatuses": [{"name": "c", "allocatedResourcesStatus": [{"name": "claim:x"}]}]},
            ["containerStatuses[0].allocatedResourcesStatus[0].name"],
        ),
        (
            {
                "containerStatuses": [
                    {
                        "name": "o",
                        "allocatedResourcesStatus": [
                            {
                                "name": "x",
                                "resources": [
                                    {"resourceID": "i", "health": "Ill", "message": ""},
                                    {"resourceID": "i", "health": "Healthy"},
                                ],
                            }
                        ],
                    }
                ]
            },
            [
                f"containerStatuses[0].allocatedResourcesStatus[0].resources[{at}].{key}"
                for at, key in ((0, "health"), (0, "message"), (1, "resourceID"))
            ],
        ),
        (
            {
                "containerStatuses": [
                    {"name": "c", "user": {"linux": {"uid": -1, "gid": 1, "supplementalGroups": [-1]}}}
                ]
            },
            ["containerStatuses[0].user.linux.uid", "containerStatuses[0].user.linux.supplementalGroups[0]"],
        ),
        (
            {"extendedResourceClaimStatus": {}},
            ["extendedResourceClaimStatus.requestMappings", "extendedResourceClaimStatus.resourceClaimName"],
        ),
        (
            {
                "extendedResourceClaimStatus": {
                    "resourceClaimName": "x",
                    "requestMappings": [{"containerName": "x", "requestName": "r", "resourceName": "a"}],
                }
            },
            ["extendedResourceClaimStatus.requestMappings[0].containerName"],
        ),
        (
            {
                "extendedResourceClaimStatus": {
                    "resourceClaimName": "x",
                    "requestMappings": [{"containerName": "c", "requestName": "r", "resourceName": "a"}],
                }
            },
            ["extendedResourceClaimStatus.requestMappings[0].resourceName"],
        ),
    ],
)
def test_what_is_wrong_with_a_pods_status(status, expected):
    found = BEHAVIOURS["", "Pod"].status.validate({**_pod({}), "status": status}, {**_pod({}), "status": {}})
    assert [each.field.removeprefix("status.") for each in found] == expected


VOLUME = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"hostPath": {"path": "/"}}, ["spec.persistentVolumeReclaimPolicy"]),
        ({"hostPath": {"path": "//"}}, ["spec.persistentVolumeReclaimPolicy"]),
        ({"hostPath": {"path": "/a/.."}}, ["spec.hostPath.path", "spec.persistentVolumeReclaimPolicy"]),
        ({"hostPath": {"path": "/a"}}, []),
        ({"hostPath": {"path": ""}}, ["spec.hostPath.path"]),
        ({"local": {"path": "/a"}}, ["spec.nodeAffinity"]),
        ({"local": {"path": "/a"}, "nodeAffinity": {}}, ["spec.nodeAffinity.required"]),
    ],
)
def test_what_is_wrong_with_a_recycled_volume_of_a_node(spec, expected):
    spec = {**VOLUME, "persistentVolumeReclaimPolicy": "Recycle", **spec}
    found = persistent_volume.KIND.validate({"metadata": {"name": "v"}, "spec": spec})
    assert [each.field for each in found] == expected


CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def test_the_namespace_of_a_source_is_a_label():
    reference = {"kind": "PersistentVolumeClaim", "name": "a", "namespace": "Not_One"}
    found = persistent_volume_claim.spec("spec", {**CLAIM, "dataSourceRef": reference})
    assert [each.field for each in found] == ["spec.dataSourceRef.namespace"]


def _claim(group=None, name=None, current=None):
    source = {"apiGroup": group, "kind": "A", "name": "a"}
    spec = {**CLAIM, **({"dataSource": source, "dataSourceRef": source} if group else {})}
    if name is not None:
        spec["volumeAttributesClassName"] = name
    status = {"phase": "Bound"} | ({"currentVolumeAttributesClassName": current} if current else {})
    return {"metadata": {}, "spec": spec, "status": status}


def test_the_api_group_of_a_stored_source_is_not_checked_again():
    found = persistent_volume_claim.KIND.validate_update(_claim("Not_One"), _claim("a.example"))
    assert [each.field for each in found] == ["spec"]
    assert [each.field for each in persistent_volume_claim.KIND.validate(_claim("Not_One"))] == [
        "spec.dataSource.apiGroup",
        "spec.dataSourceRef.apiGroup",
    ]


@pytest.mark.parametrize(
    ("name", "current", "refused"),
    [(None, "gold", True), ("", "gold", True), ("silver", "gold", False), (None, None, False)],
)
def test_a_claim_keeps_a_class_of_attributes_once_one_is_in_force(name, current, refused):
    new, old = _claim(name=name, current=current), _claim(name="gold", current=current)
    found = persistent_volume_claim.KIND.validate_update(new, old)
    assert [each.field for each in found] == ["spec.volumeAttributesClassName"] * refused
