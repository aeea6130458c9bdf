"""AdmissionConfiguration files: their settings, and errors of invalid ones."""

import pytest
import yaml

from vcsync.apiserver.admission.framework.settings import Limited, Settings, SettingsError, read
from vcsync.apiserver.admission.pod_standards.standards import Standard

SECURITY = {"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration"}
QUOTA = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "ResourceQuotaConfiguration"}


def configured(*plugins, **files):
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
    text = yaml.safe_dump({**head, "plugins": list(plugins)}).encode()
    return read(text, lambda path: yaml.safe_dump(files[path]).encode())


def test_pod_security_has_defaults_and_exemptions():
    content = {
        **SECURITY,
        "defaults": {"enforce": "baseline", "enforce-version": "v1.30", "warn": "restricted"},
        "exemptions": {"usernames": ["root"], "namespaces": ["kube-system"], "runtimeClasses": ["kata"]},
    }
    found = configured({"name": "PodSecurity", "configuration": content})
    assert found.standard.enforce == Standard("baseline", 30)
    assert found.standard.warn == Standard("restricted")
    assert found.standard.audit == Standard()
    exempt = found.exemptions
    assert (exempt.usernames, exempt.namespaces, exempt.runtime_classes) == (
        {"root"},
        {"kube-system"},
        {"kata"},
    )


def test_limited_resources_are_configured_by_name_and_by_scope():
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    content = {
        **QUOTA,
        "limitedResources": [
            {"resource": "pods", "matchScopes": [scope]},
            {"apiGroup": "", "resource": "persistentvolumeclaims", "matchContains": ["gold."]},
        ],
    }
    found = configured({"name": "ResourceQuota", "path": "quota"}, quota=content)
    assert found.limited == (
        Limited("", "pods", (), (scope,)),
        Limited("", "persistentvolumeclaims", ("gold.",), ()),
    )


def test_both_plug_ins_are_configured_in_one_file():
    found = configured(
        {"name": "PodSecurity", "configuration": {**SECURITY, "defaults": {"audit": "baseline"}}},
        {"name": "ResourceQuota", "configuration": {**QUOTA, "limitedResources": [{"resource": "pods"}]}},
    )
    assert found.standard.audit.level == "baseline"
    assert len(found.limited) == 1


def test_an_empty_file_changes_nothing():
    assert configured() == Settings()


@pytest.mark.parametrize(
    ("plugin", "said"),
    [
        ({"name": "PodSecurty"}, r"plugins\[0\].name: 'PodSecurty' has no configuration; known are PodSecurity, ResourceQuota"),
        ({"name": "PodSecurity"}, "either configuration or path"),
        ({"nam": "PodSecurity"}, r"plugins\[0\].nam: unknown field; did you mean name?"),
        ({"name": "PodSecurity", "configuration": {**SECURITY, "defaults": {"enforced": "x"}}},
         "configuration.defaults.enforced: unknown field; did you mean enforce?"),
        ({"name": "PodSecurity", "configuration": {**SECURITY, "defaults": {"enforce": "strict"}}},
         "defaults.enforce: 'strict' must be one of"),
        ({"name": "PodSecurity", "configuration": {**SECURITY, "defaults": {"warn-version": "1.30"}}},
         "defaults.warn-version: '1.30' must be"),
        ({"name": "PodSecurity", "configuration": {**SECURITY, "exemptions": {"namespaces": ["A_"]}}},
         "'A_' is not a valid name of a namespace"),
        ({"name": "PodSecurity", "configuration": QUOTA}, "apiVersion and kind must be pod-security"),
        ({"name": "ResourceQuota", "configuration": {**QUOTA, "limitedResources": [{"matchContains": ["x"]}]}},
         r"limitedResources\[0\].resource: is required"),
        ({"name": "ResourceQuota", "configuration": {**QUOTA, "limitedResources": [{"resource": 5}]}},
         "Expected `str`, got `int`"),
    ],
)  # fmt: skip
def test_invalid_files_are_refused_with_the_field(plugin, said):
    with pytest.raises(SettingsError, match=said):
        configured(plugin)


@pytest.mark.parametrize(
    "text", [b"- a", b"a: [", b"\xff", b"apiVersion: v1\nkind: ConfigMap", b"x" * (2**20 + 1)]
)
def test_files_that_are_no_configuration_are_refused(text):
    with pytest.raises(SettingsError):
        read(text, lambda _: b"")


def test_errors_of_the_whole_file_have_no_path():
    with pytest.raises(SettingsError, match=r"^Expected `str`, got `int` - at `\$.apiVersion`$"):
        read(b"apiVersion: 5", lambda _: b"")
