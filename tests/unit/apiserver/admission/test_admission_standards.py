"""Pod Security Standards for Pods with several containers, and warnings for exempt namespaces."""

import pytest

from vcsync.apiserver.admission.framework.settings import Exemptions, Settings
from vcsync.apiserver.admission.pod_security.plugin import PodSecurity
from vcsync.apiserver.admission.pod_standards.pod_checks import findings
from vcsync.apiserver.admission.pod_standards.standards import Policy, Standard

LABEL = "pod-security.kubernetes.io/"
NEWEST = 36


def pod(*contexts, **spec):
    containers = [
        {"name": name, "image": "i", **({} if context is None else {"securityContext": context})}
        for name, context in zip("abc", contexts, strict=False)
    ]
    return {"containers": containers, **spec}


def violations(given, *, restricted=False):
    """Return the details of the violations of a Pod by reason."""
    return dict(findings(restricted, NEWEST, {}, given))


SAID = [
    # restricted, reason, containers' contexts, what is said
    (False, "procMount", [{"procMount": "Unmasked"}, {}, None],
     'container "a" must not set securityContext.procMount to "Unmasked"'),
    (False, "procMount", [{"procMount": "Unmasked"}, {"procMount": "Default"}, {"procMount": "Odd"}],
     'containers "a", "c" must not set securityContext.procMount to "Odd", "Unmasked"'),
    (False, "privileged", [{"privileged": True}, {"privileged": False}, {"privileged": True}],
     'containers "a", "c" must not set securityContext.privileged=true'),
    (True, "runAsNonRoot != true", [{"runAsNonRoot": True}, {}, None],
     'pod or containers "b", "c" must set securityContext.runAsNonRoot=true'),
    (True, "runAsNonRoot != true", [{"runAsNonRoot": True}, {"runAsNonRoot": False}, {}],
     'container "b" must not set securityContext.runAsNonRoot=false'),
    (True, "allowPrivilegeEscalation != false", [{"allowPrivilegeEscalation": False}, {}],
     'container "b" must set securityContext.allowPrivilegeEscalation=false'),
    (True, "seccompProfile", [{"seccompProfile": {"type": "Localhost"}}, {}],
     'pod or container "b" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'),
    (True, "unrestricted capabilities",
     [{"capabilities": {"drop": ["ALL"]}}, {"capabilities": {"drop": ["KILL"], "add": ["CHOWN"]}}, {}],
     ('containers "b", "c" must set securityContext.capabilities.drop=["ALL"]; '
      'container "b" must not include "CHOWN" in securityContext.capabilities.add')),
    (False, "seLinuxOptions",
     [{"seLinuxOptions": {"type": "spc_t"}}, {"seLinuxOptions": {"user": "u"}}, {"seLinuxOptions": {"level": "s0"}}],
     'containers "a", "b" set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not be set'),
]  # fmt: skip


@pytest.mark.parametrize(("restricted", "reason", "contexts", "said"), SAID)
def test_only_violating_containers_are_named(restricted, reason, contexts, said):
    assert violations(pod(*contexts), restricted=restricted)[reason] == said


def test_run_as_non_root_of_the_pod_applies_to_its_containers():
    given = pod({}, None, securityContext={"runAsNonRoot": True})
    assert "runAsNonRoot != true" not in violations(given, restricted=True)
    given["containers"][0]["securityContext"] = {"runAsNonRoot": False}
    assert violations(given, restricted=True)["runAsNonRoot != true"] == (
        'container "a" must not set securityContext.runAsNonRoot=false'
    )


def test_all_forbidden_sysctls_are_named_and_no_others():
    names = ["kernel.shm_rmid_forced", "kernel.msgmax", "net.ipv4.tcp_syncookies", "vm.swappiness"]
    given = pod({}, securityContext={"sysctls": [{"name": name, "value": "1"} for name in names]})
    assert violations(given)["forbidden sysctls"] == "kernel.msgmax, vm.swappiness"
    assert violations(pod({}, securityContext={"sysctls": [{"value": "1"}]}))["forbidden sysctls"] == ""


def namespace(**labels):
    return {"metadata": {"name": "n", "labels": {f"{LABEL}{name}": value for name, value in labels.items()}}}


@pytest.fixture
def exempt():
    return PodSecurity(Settings(exemptions=Exemptions(namespaces=frozenset({"n"}))))


IGNORED = [
    ({"enforce": "baseline"}, "enforce=baseline:latest"),
    (
        {"enforce": "baseline", "audit": "restricted", "audit-version": "v1.30", "warn": "baseline"},
        "enforce=baseline:latest, audit=restricted:v1.30, warn=baseline:latest",
    ),
    ({"enforce": "restricted", "audit": "privileged"}, "enforce=restricted:latest"),
]


@pytest.mark.parametrize(("labels", "asked_for"), IGNORED)
@pytest.mark.parametrize("old", [None, namespace()], ids=["created", "updated"])
async def test_ignored_labels_of_exempt_namespaces_are_warned_of(
    admit, scope, exempt, labels, asked_for, old
):
    here = scope("", "namespaces")
    await admit(exempt, namespace(**labels), old=old, scope=here)
    said = f'namespace "n" is exempt from Pod Security, and the policy ({asked_for}) will be ignored'
    assert here.warnings == [said]


@pytest.mark.parametrize("labels", [{}, {"enforce": "privileged"}])
async def test_exempt_namespaces_without_restrictive_labels_get_no_warning(admit, scope, exempt, labels):
    here = scope("", "namespaces")
    await admit(exempt, namespace(**labels), scope=here)
    assert here.warnings == []


async def test_exempt_namespaces_with_the_default_policy_get_no_warning(admit, scope):
    baseline = Standard("baseline", 30)
    settings = Settings(Policy(enforce=baseline, warn=baseline), Exemptions(namespaces=frozenset({"n"})))
    here = scope("", "namespaces")
    labels = {"enforce": "baseline", "enforce-version": "v1.30"}
    await admit(PodSecurity(settings), namespace(**labels), scope=here)
    assert here.warnings == []
