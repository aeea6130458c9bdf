"""Names, addresses, schedules, quantities and the canonical form."""

import base64

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apimachinery.kinds.behaviours import BEHAVIOURS
from vcsync.apimachinery.kinds.common import addresses
from vcsync.apimachinery.kinds.core.pod_defaults import image_tag
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import selects
from vcsync.objects.cron_schedules import schedule_error


@pytest.mark.parametrize(
    ("rule", "text", "told"),
    [
        (names.dns_label, "a-1", []),
        (names.dns_label, "a.b", ["must not contain dots"]),
        (names.dns_label, "a" * 64, ["must be no more than 63 characters"]),
        (names.dns_subdomain, "a.b-c", []),
        (names.qualified_name, "example.com/My_name", []),
        (names.qualified_name, "/x", ["prefix part must be non-empty"]),
        (names.label_value, "", []),
        (names.config_key, "..", ["must not be '..'"]),
        (names.config_key, "..x", ["must not start with '..'"]),
        (names.port_name, "a--b", ["must not contain consecutive hyphens"]),
        (names.port_name, "12", ["must contain at least one letter (a-z)"]),
        (names.path_segment, "..", ["may not be '..'"]),
        (names.path_segment, "a/b%", ["may not contain '/'", "may not contain '%'"]),
        (names.environment_name, "A B", []),
        (names.percent, "5%", []),
    ],
)
def test_names(rule: names.Rule, text: str, told: list[str]) -> None:
    assert rule(text) == told


@pytest.mark.parametrize(
    "rule", [names.dns_label, names.dns_subdomain, names.qualified_name, names.label_value]
)
def test_names_that_are_read_again_are_told_the_same(rule: names.Rule) -> None:
    for text in ("a-1", "a!", "a" * 64, "a" * 300, ""):
        first = rule(text)
        first_told = list(first)
        first.append("whoever is told may add to it")
        assert rule(text) == first_told


def test_a_name_that_breaks_its_pattern_is_told_the_pattern_and_an_example() -> None:
    [told] = names.dns_subdomain("Bad!")
    assert told.startswith(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
    )
    assert told.endswith(
        "(e.g. 'example.com', regex used for validation is"
        " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    )


def test_a_prefix_may_end_in_a_dash() -> None:
    assert names.subdomain_name("web-", True) == []
    assert names.subdomain_name("web-", False) != []


@pytest.mark.parametrize(
    "rule", [names.dns_subdomain, names.dns_subdomain_with_underscore, names.qualified_name]
)
def test_hostile_names_take_no_time(rule: names.Rule) -> None:
    assert rule("a-" * 100_000 + "!")
    assert rule("a." * 100_000 + "!")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("10.0.0.1", ""),
        ("2001:db8::1", ""),
        ("010.0.0.1", "must not have leading 0s"),
        ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
        ("x", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        ("fe80::1%eth0", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    ],
)
def test_addresses(text: str, told: str) -> None:
    assert [each.body.rpartition('": ')[2] for each in addresses.address("ip", text)] == (
        [told] if told else []
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("10.0.0.0/8", ""),
        ("10.0.0.1/8", "must not have bits set beyond the prefix length"),
        ("10.0.0.0/08", "must not have leading 0s in IP or prefix length"),
        ("10.0.0.0", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
        ("10.0.0.0/33", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
    ],
)
def test_ranges(text: str, told: str) -> None:
    assert [each.body.rpartition('": ')[2] for each in addresses.cidr("ip", text)] == ([told] if told else [])


def test_what_was_there_before_may_stay() -> None:
    assert list(addresses.address("ip", "010.0.0.1", ("010.0.0.1",))) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("*/5 0-6 ? jan-mar MON,tue", ""),
        ("@hourly", ""),
        ("@every 1h30m", ""),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("@sometimes", "unrecognized descriptor: @sometimes"),
    ],
)
def test_schedules(text: str, told: str) -> None:
    assert schedule_error(text) == told


@given(st.text(max_size=60))
def test_any_text_is_a_schedule_or_not(text: str) -> None:
    assert isinstance(schedule_error(text), str)


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("nginx", "latest"),
        ("nginx:1.25", "1.25"),
        ("r.example:5000/a/b", "latest"),
        ("r.example:5000/a/b:v1", "v1"),
        (f"a@sha256:{'0' * 64}", ""),
        ("Not An Image", ""),
        ("", ""),
    ],
)
def test_tags_of_images(image: str, tag: str) -> None:
    assert image_tag(image) == tag


def test_selectors_without_anything_select_nothing_and_empty_ones_everything() -> None:
    assert not selects(None, {"a": "b"})
    assert selects({}, {"a": "b"})
    assert selects({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["y"]}]}, {})


def test_every_kind_with_a_status_says_so() -> None:
    assert {kind for (_, kind), each in BEHAVIOURS.items() if each.status} >= {
        "Pod",
        "Node",
        "Deployment",
        "Job",
    }
    assert BEHAVIOURS["", "ConfigMap"].status is None


@pytest.mark.parametrize(
    ("name", "told"), [(b"someone", ""), (b"some\xff\xfee", "malformed certificate request")]
)
def test_a_certificate_request_has_a_subject_that_can_be_read(name: bytes, told: str) -> None:
    behaviour = BEHAVIOURS["certificates.k8s.io", "CertificateSigningRequest"]
    asked = {
        "metadata": {"name": "r"},
        "spec": {"signerName": "a.b/c", "usages": ["client auth"], "request": signing_request(name)},
    }
    found = [str(each) for each in behaviour.validate(asked)]
    assert len(found) == bool(told)
    assert told in "".join(found)


def signing_request(name: bytes) -> str:
    """Return a request, as the field has it, for whoever is named by these bytes."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "someone")])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    signed = made.tbs_certrequest_bytes.replace(b"someone", name)
    signature = key.sign(signed, ec.ECDSA(hashes.SHA256()))
    algorithm = bytes.fromhex("300a06082a8648ce3d040302")
    whole = signed + algorithm + b"\x03" + bytes([len(signature) + 1]) + b"\0" + signature
    der = b"\x30\x81" + bytes([len(whole)]) + whole
    lines = base64.encodebytes(der)
    pem = b"-----BEGIN CERTIFICATE REQUEST-----\n" + lines + b"-----END CERTIFICATE REQUEST-----\n"
    return base64.b64encode(pem).decode()


@pytest.mark.parametrize(
    "kind",
    [
        f"{mode}{rest}"
        for mode in ("Validating", "Mutating")
        for rest in ("WebhookConfiguration", "AdmissionPolicy", "AdmissionPolicyBinding")
    ],
)
def test_new_configurations_with_the_names_of_static_ones_cause_a_warning(kind):
    behaviour = BEHAVIOURS["admissionregistration.k8s.io", kind]
    named = {"metadata": {"name": "a.static.k8s.io"}}
    assert ["static manifest-based" in each for each in behaviour.warnings(named, None)] == [True]
    assert not behaviour.warnings(named, named)
    assert not behaviour.warnings({"metadata": {"name": "a.k8s.io"}}, None)


CONTAINERS = [{"name": "c", "image": "i"}]
OLD_NODES = {"spec": {"containers": CONTAINERS, "nodeSelector": {"beta.kubernetes.io/os": "linux"}}}
NEW_NODES = {"spec": {"containers": CONTAINERS}}


def _workload(template, **spec):
    return {"metadata": {"name": "w.x"}, "spec": {"template": template, **spec}, "template": template}


@pytest.mark.parametrize(
    ("group", "kind", "created", "changed", "replaced"),
    [
        ("apps", "Deployment", ["name", "template"], ["template"], []),
        ("apps", "ReplicaSet", ["name", "template"], ["template"], []),
        ("apps", "StatefulSet", ["template"], ["template"], []),
        ("apps", "DaemonSet", ["template"], [], []),
        ("", "PodTemplate", ["template"], [], []),
        ("", "ReplicationController", ["name", "template"], ["template"], ["template"]),
    ],
)
def test_when_workloads_cause_warnings(group, kind, created, changed, replaced):
    warnings = BEHAVIOURS[group, kind].warnings
    old, new = _workload(OLD_NODES), _workload(NEW_NODES)
    slower = _workload(OLD_NODES, minReadySeconds=1)

    def about(found):
        return ["name" if each.startswith("metadata.name") else "template" for each in found]

    assert about(warnings(old, None)) == created
    assert about(warnings(slower, old)) == changed
    assert about(warnings(new, old)) == replaced
    assert about(warnings(old, old)) == []


def test_fractions_of_bytes_in_claim_templates_cause_warnings():
    sizes = {"requests": {"storage": "1500m"}, "limits": {"storage": "1"}}
    new = _workload(NEW_NODES, volumeClaimTemplates=[{"spec": {"resources": sizes}}])
    warnings = BEHAVIOURS["apps", "StatefulSet"].warnings
    why = 'resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer'
    assert warnings(new, None) == [f"spec.volumeClaimTemplates[0].{why}"]
    assert warnings(new, new) == [f"spec.volumeClaimTemplates[0].Spec.{why}"]


@pytest.mark.parametrize(("operation", "refused"), [("CREATE", False), ("DELETE", True)])
def test_a_binding_of_a_mutating_policy_may_not_match_deletions(operation, refused):
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": ["pods"]}
    match = {
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "resourceRules": [rule],
    }
    spec = {"policyName": "p", "matchResources": match}
    behaviour = BEHAVIOURS["admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"]
    found = behaviour.validate({"metadata": {"name": "b"}, "spec": spec})
    assert [each.field for each in found] == ["spec.matchResources.resourceRules.operations"] * refused
