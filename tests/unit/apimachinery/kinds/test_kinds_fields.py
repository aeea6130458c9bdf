"""Rules of single fields, each as kube-apiserver answers a request that sets nothing else."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from vcsync.apimachinery.crd.definition import BEHAVIOUR as DEFINITIONS
from vcsync.apimachinery.crd.validation import validate as definition_findings
from vcsync.apimachinery.kinds.behaviours import BEHAVIOURS
from vcsync.apimachinery.kinds.certificates import certificate_signing_request
from vcsync.apimachinery.kinds.core import pod_defaults, pod_volumes
from vcsync.apimachinery.kinds.core.pod_containers import Surroundings, ephemeral_containers
from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.schema import builtin
from vcsync.apimachinery.strategy import Context, User
from vcsync.apiserver.registry import object_meta as meta

KINDS = BEHAVIOURS
NOW = Context("acme", User("admin"), "2027-01-01T00:00:00Z")
BAD = "Not One/ of:them"
SEGMENT = "may not contain '/'"
SUBDOMAIN = "a lowercase RFC 1123 subdomain"
INLINE = "spec.source.inlineVolumeSpec"
AROUND = Surroundings({}, frozenset(), None, "Always", host_users=True, system="")


def resource(group: str, kind: str) -> Resource:
    return next(each for each in builtin.resources() if (each.group, each.kind) == (group, kind))


def no_rules(_schema: Any, _whole: bool) -> list[Any]:
    return []


def told(findings: Any) -> list[str]:
    return [f"{each.field}: {each.body}" for each in findings]


def created(group: str, kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    KINDS[group, kind].default(obj)
    KINDS[group, kind].prepare_create(obj, NOW)
    return obj


def updated(group: str, kind: str, old: dict[str, Any], **changes: Any) -> dict[str, Any]:
    new = copy.deepcopy(old) | changes
    KINDS[group, kind].prepare_update(new, old, NOW)
    return new


@pytest.mark.parametrize(
    ("group", "kind", "key", "why"),
    [
        ("", "Event", "name", SEGMENT),
        ("", "Event", "generateName", SEGMENT),
        ("events.k8s.io", "Event", "name", SUBDOMAIN),
        ("apiregistration.k8s.io", "APIService", "name", SEGMENT),
        ("apiregistration.k8s.io", "APIService", "generateName", SEGMENT),
        ("policy", "PodDisruptionBudget", "name", SEGMENT),
        ("policy", "PodDisruptionBudget", "generateName", SEGMENT),
        ("resource.k8s.io", "DeviceClass", "name", SUBDOMAIN),
        ("resource.k8s.io", "DeviceClass", "generateName", SEGMENT),
        ("", "ReplicationController", "name", SUBDOMAIN),
        ("", "ReplicationController", "generateName", SEGMENT),
        ("", "ConfigMap", "generateName", SUBDOMAIN),
    ],
)
def test_which_names_a_kind_takes(group: str, kind: str, key: str, why: str) -> None:
    about = resource(group, kind)
    metadata = {"name": "a", key: BAD, **({"namespace": "default"} if about.namespaced else {})}
    found = told(meta.findings(metadata, resource=about, own_name=True, behaviour=KINDS[group, kind]))
    assert len(found) == 1
    assert found[0].startswith(f'metadata.{key}: Invalid value: "{BAD}": {why}')


def test_a_limit_range_without_a_name_is_named_after_its_uid() -> None:
    assert created("", "LimitRange", {"metadata": {"uid": "u"}})["metadata"]["name"] == "u"
    assert created("", "LimitRange", {"metadata": {"uid": "u", "name": "a"}})["metadata"]["name"] == "a"


def test_generate_names_that_no_object_can_have_are_refused() -> None:
    service = {"metadata": {"name": "v1.a", "generateName": "x"}, "spec": {"group": "a", "version": "v1"}}
    assert told(KINDS["apiregistration.k8s.io", "APIService"].validate(service))[0].startswith(
        'metadata.generateName: Invalid value: "x": must be `spec.version'
    )
    address = {"metadata": {"name": "192.0.2.1", "generateName": "x"}}
    found = told(KINDS["networking.k8s.io", "IPAddress"].validate_update(address, address))
    assert found[0] == (
        'metadata.generateName: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'
    )
    spec = {"group": "b.c", "names": {"plural": "as"}}
    definition = {"metadata": {"name": "as.b.c", "generateName": "x"}, "spec": spec}
    found = [each for each in told(definition_findings(definition, no_rules)) if each.startswith("metadata")]
    assert found == ['metadata.generateName: Invalid value: "x": must be spec.names.plural+"."+spec.group']


@pytest.mark.parametrize("name", ["", BAD])
def test_a_versions_name_is_told_once_where_it_is_absent(name: str) -> None:
    spec = {"group": "b.c", "names": {"plural": "as"}, "versions": [{"name": name}]}
    found = told(definition_findings({"metadata": {"name": "as.b.c"}, "spec": spec}, no_rules))
    places = [each.partition(": ")[0] for each in found]
    assert places.count("spec.versions[0].name") == 1
    assert places.count("spec.version") == bool(name)


def test_a_node_keeps_no_configuration_of_its_kubelet_that_it_never_had() -> None:
    source = {"configMap": {"name": "x"}}
    old: dict[str, Any] = {"metadata": {}, "spec": {}, "status": {}}
    assert updated("", "Node", old, spec={"configSource": source})["spec"] == {}
    known = {**old, "spec": {"configSource": source}}
    assert updated("", "Node", known)["spec"]["configSource"]["configMap"]["name"] == "x"
    status = KINDS["", "Node"].status
    assert status is not None
    new: dict[str, Any] = {"status": {"config": {"error": "x"}}}
    status.prepare(new, old, NOW)
    assert new["status"] == {}


def test_nodes_are_warned_of_what_nobody_reads() -> None:
    warn = KINDS["", "Node"].warnings
    assert warn({"spec": {"externalID": "x"}}, None) == [
        "spec.externalID: this field is deprecated, and is unused by Kubernetes"
    ]
    assert warn({"spec": {"configSource": {}}}, None) == ["spec.configSource: the feature is removed"]
    assert "is ambiguous" in warn({"spec": {"podCIDRs": ["10.0.0.1/24"]}}, None)[0]
    assert warn({"spec": {"podCIDRs": ["10.0.0.0/24"]}}, None) == []


def test_references_to_secrets_are_names_only() -> None:
    secrets = [{"name": "a", "kind": "Secret", "uid": "u"}]
    assert created("", "ServiceAccount", {"metadata": {}, "secrets": secrets})["secrets"] == [{"name": "a"}]
    old = {"metadata": {}, "secrets": [{"name": "a"}]}
    new = updated("", "ServiceAccount", old, secrets=[{"name": "b", "namespace": "x"}])
    assert new["secrets"] == [{"name": "b"}]


def test_a_claims_source_is_in_its_own_namespace() -> None:
    reference = {"kind": "K", "name": "x", "namespace": "other", "apiGroup": "a.example"}
    made = created("", "PersistentVolumeClaim", {"metadata": {}, "spec": {"dataSourceRef": dict(reference)}})
    assert "dataSourceRef" not in made["spec"]
    old = {"metadata": {}, "spec": {"dataSourceRef": reference}}
    assert updated("", "PersistentVolumeClaim", old)["spec"]["dataSourceRef"] == reference


def test_a_drivers_generation_counts_changes() -> None:
    key = ("storage.k8s.io", "CSIDriver")
    made = created(*key, {"metadata": {"generation": 1}, "spec": {"preventPodSchedulingIfMissing": True}})
    assert made["metadata"] == {"generation": 1}
    assert "preventPodSchedulingIfMissing" not in made["spec"]
    assert KINDS[key].generation == ()
    assert "generation" not in updated(*key, {"metadata": {}, "spec": {"a": 1}})["metadata"]
    assert updated(*key, {"metadata": {}, "spec": {"a": 1}}, spec={"a": 2})["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("group", "kind", "dropped", "old", "new"),
    [
        (
            "discovery.k8s.io",
            "EndpointSlice",
            "deprecatedTopology",
            {"endpoints": [{"addresses": ["10.0.0.1"]}]},
            {"endpoints": [{"addresses": ["10.0.0.1"], "deprecatedTopology": {"a": "x"}}]},
        ),
        (
            "resource.k8s.io",
            "ResourceSlice",
            "nodeAllocatableResourceMappings",
            {"spec": {"devices": [{"name": "d"}]}},
            {"spec": {"devices": [{"name": "d", "nodeAllocatableResourceMappings": {"a": {}}}]}},
        ),
    ],
)
def test_generations_count_what_is_dropped_too(
    group: str, kind: str, dropped: str, old: dict[str, Any], new: dict[str, Any]
) -> None:
    found = updated(group, kind, {"metadata": {"generation": 1}, **old}, **new)
    assert found["metadata"] == {"generation": 2}
    assert dropped not in str(found)


def test_only_new_slices_of_host_names_are_warned_of() -> None:
    warn = KINDS["discovery.k8s.io", "EndpointSlice"].warnings
    assert warn({"addressType": "FQDN"}, None) == ["spec.addressType: FQDN endpoints are deprecated"]
    assert warn({"addressType": "FQDN"}, {"addressType": "FQDN"}) == []


@pytest.mark.parametrize(
    ("inline", "expected"),
    [
        ({"claimRef": {}}, f"{INLINE}.claimRef: Forbidden: may not be specified"),
        ({"nodeAffinity": {}}, f"{INLINE}.nodeAffinity: Forbidden: may not be specified"),
        (
            {"persistentVolumeReclaimPolicy": "Delete"},
            f"{INLINE}.persistentVolumeReclaimPolicy: Forbidden: may only be Retain",
        ),
        ({"storageClassName": "x"}, f"{INLINE}.storageClassName: Forbidden: may not be specified"),
        ({"volumeMode": "Block"}, f"{INLINE}.volumeMode: Forbidden: may not specify volumeMode"),
        (
            {"azureDisk": {"diskName": "d", "diskURI": "/subscriptions/x"}},
            f'{INLINE}.azureDisk.diskURI: Unsupported value: "/subscriptions/x"',
        ),
    ],
)
def test_what_an_inline_volume_may_not_say(inline: dict[str, Any], expected: str) -> None:
    source = {"source": {"inlineVolumeSpec": inline}}
    made = created("storage.k8s.io", "VolumeAttachment", {"metadata": {"name": "a"}, "spec": source})
    found = told(KINDS["storage.k8s.io", "VolumeAttachment"].validate(made))
    assert [each.startswith(expected) for each in found].count(True) == 1
    assert f"{INLINE}.csi: Required value: has to be specified in the context of inline volumes" in found


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("a.example/x", []),
        ("Not One/ of", ['"Not One": validating label "Not One"', '"Not One": should be a domain', '" of": validating']),
        ("a..b/x", ['"a..b": validating label ""']),
        ("a.example/x.Y", ['"x.Y": validating label "Y"']),
    ],
)  # fmt: skip
def test_signers_names_are_checked_label_by_label(name: str, places: list[str]) -> None:
    found = told(certificate_signing_request.signer_name("s", name))
    assert len(found) == len(places)
    for each, expected in zip(found, places, strict=True):
        assert each.startswith(f"s: Invalid value: {expected}")


@pytest.mark.parametrize("key", ["lifecycle", "livenessProbe", "ports", "resizePolicy", "restartPolicyRules"])
def test_an_ephemeral_container_may_not_even_say_that_it_has_none(key: str) -> None:
    container = {"name": "e", "image": "i", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}
    empty: Any = {} if key in ("lifecycle", "livenessProbe") else []
    found = told(ephemeral_containers("e", [{**container, key: empty, "resources": {}}], AROUND))
    assert f"e[0].{key}: Forbidden: cannot be set for an Ephemeral Container" in found
    assert not any(each.startswith("e[0].resources") for each in found)


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("a" * 247, "Always"),
        ("a" * 248, "IfNotPresent"),
        ("r.example/" + "a" * 255, "Always"),
        ("r.example/" + "a" * 256, "IfNotPresent"),
        ("team/" + "a" * 250, "Always"),
        ("team/" + "a" * 251, "IfNotPresent"),
        ("nginx:1", "IfNotPresent"),
    ],
)
def test_a_repository_of_more_than_255_characters_has_no_latest_tag(image: str, policy: str) -> None:
    found: dict[str, Any] = {"spec": {"containers": [{"name": "c", "image": image}]}}
    pod_defaults.pod(found)
    assert found["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_a_pods_driver_tells_of_its_secret_at_its_own_name() -> None:
    volume = {"name": "v", "csi": {"driver": "d.example", "nodePublishSecretRef": {"name": BAD}}}
    found = told(pod_volumes.volumes("v", {"volumes": [volume]}, "p", is_pod=True)[1])
    assert [each.partition(": ")[0] for each in found] == ["v[0].csi.name"]


def test_a_templates_uid_is_named_as_in_go_also_when_it_changes() -> None:
    template = {"metadata": {"name": "a"}, "spec": {"metadata": {"uid": "x"}, "spec": {}}}
    rules = KINDS["resource.k8s.io", "ResourceClaimTemplate"]
    wrong = "spec.metadata.uID: Forbidden: cannot be set"
    assert told(rules.validate(template)) == [wrong]
    found = told(rules.validate_update(template, {**template, "spec": {"spec": {}}}))
    assert found[0] == wrong
    assert found[1].endswith("field is immutable")


def test_an_attribute_with_a_domain_is_looked_at_on_both_sides_of_the_slash() -> None:
    claim = {"metadata": {}, "spec": {"devices": {"constraints": [{"matchAttribute": BAD}]}}}
    found = told(KINDS["resource.k8s.io", "ResourceClaim"].validate(claim))
    here = "spec.devices.constraints[0].matchAttribute: Invalid value: "
    assert [each.startswith(f'{here}"Not One": {SUBDOMAIN}') for each in found].count(True) == 1
    assert [each.startswith(f'{here}" of:them": ') for each in found].count(True) == 1


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("10.9.8.7/24", ""),
        ("2001:db8::1/64", ""),
        ("x", "must be a valid address in CIDR form"),
        ("10.9.8.7", "must be a valid address in CIDR form"),
        ("10.9.8.07/24", 'must be in canonical form ("10.9.8.7/24")'),
        ("::ffff:10.9.8.7/120", 'must be in canonical form ("10.9.8.7/24")'),
        ("2001:DB8::1/64", 'must be in canonical form ("2001:db8::1/64")'),
    ],
)
def test_the_addresses_of_a_devices_network(address: str, why: str) -> None:
    device = {"driver": "a.example", "pool": "p", "device": "d", "networkData": {"ips": [address]}}
    claim = {"metadata": {}, "spec": {}, "status": {"devices": [device]}}
    status = KINDS["resource.k8s.io", "ResourceClaim"].status
    assert status is not None
    found = [each for each in told(status.validate(claim, {"status": {}})) if "networkData" in each]
    here = "status.devices[0].networkData.ips[0]"
    assert found == [] if not why else found[0].startswith(f'{here}: Invalid value: "{address}": {why}')


def test_what_is_allocated_tolerates_equal_values() -> None:
    results = [{"request": "r", "tolerations": [{}]}]
    claim: dict[str, Any] = {
        "metadata": {},
        "spec": {},
        "status": {"allocation": {"devices": {"results": results}}},
    }
    KINDS["resource.k8s.io", "ResourceClaim"].default(claim)
    assert claim["status"]["allocation"]["devices"]["results"][0]["tolerations"] == [{"operator": "Equal"}]


def test_a_definition_keeps_no_webhook_that_says_nothing() -> None:
    spec: dict[str, Any] = {"conversion": {"strategy": "None", "webhook": {"conversionReviewVersions": None}}}
    definition: dict[str, Any] = {"metadata": {}, "spec": spec}
    DEFINITIONS.default(definition)
    assert spec["conversion"] == {"strategy": "None"}


def test_a_changed_services_class_of_balancers_is_looked_at_twice() -> None:
    old: dict[str, Any] = {"metadata": {"name": "s"}, "spec": {"type": "ClusterIP", "clusterIP": "None"}}
    new = {**old, "spec": {**old["spec"], "loadBalancerClass": "x"}}
    found = [
        each for each in told(KINDS["", "Service"].validate_update(new, old)) if "loadBalancerClass" in each
    ]
    assert found == ["spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"] * 2
