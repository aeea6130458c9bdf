"""Pod Security Standards: the checks with their versions, and the policies of namespaces."""

import asyncio
from itertools import pairwise

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.admission.framework.settings import Exemptions, Settings
from vcsync.apiserver.admission.pod_security.plugin import MAX_PODS, PodSecurity, existing, pod_security
from vcsync.apiserver.admission.pod_standards.pod_checks import findings
from vcsync.apiserver.admission.pod_standards.standards import Policy, Standard, policy

LABEL = "pod-security.kubernetes.io/"
SAFE = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
GOOD = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [{"name": "c", "image": "i", "securityContext": SAFE}],
}


def spec(context=None, **more):
    return {"containers": [{"name": "c", "image": "i", "securityContext": context or {}}], **more}


BASELINE = [
    # spec, violations
    (spec(), []),
    (spec(hostNetwork=True, hostPID=True, hostIPC=True),
     ["host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)"]),
    (spec({"privileged": True}), ['privileged (container "c" must not set securityContext.privileged=true)']),
    (spec({"capabilities": {"add": ["SYS_ADMIN", "CHOWN", "NET_RAW"]}}),
     [('non-default capabilities (container "c" must not include "NET_RAW", "SYS_ADMIN" in '
      "securityContext.capabilities.add)")]),
    (spec(volumes=[{"name": "a", "hostPath": {}}, {"name": "b", "hostPath": {}}]),
     ['hostPath volumes (volumes "a", "b")']),
    (spec() | {"initContainers": [{"name": "i", "ports": [{"hostPort": 81}, {"hostPort": 80}]}]},
     ['hostPort (container "i" uses hostPorts 80, 81)']),
    (spec({"seccompProfile": {"type": "Unconfined"}}, securityContext={"seccompProfile": {"type": "Unconfined"}}),
     ['seccompProfile (pod and container "c" must not set securityContext.seccompProfile.type to "Unconfined")']),
    (spec({"appArmorProfile": {"type": "Unconfined"}}),
     ['forbidden AppArmor profile (container "c" must not set AppArmor profile type to "Unconfined")']),
    (spec({"seLinuxOptions": {"type": "spc_t", "user": "u", "role": "r"}}),
     [('seLinuxOptions (container "c" set forbidden securityContext.seLinuxOptions: type "spc_t"; '
      "user may not be set; role may not be set)")]),
    (spec({"seLinuxOptions": {"type": "container_engine_t", "level": "s0"}}), []),
    (spec({"procMount": "Unmasked"}),
     ['procMount (container "c" must not set securityContext.procMount to "Unmasked")']),
    (spec({"procMount": "Unmasked"}, hostUsers=False), []),
    (spec(securityContext={"sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_rmem"}]}),
     ["forbidden sysctls (kernel.msgmax)"]),
    (spec({"windowsOptions": {"hostProcess": True}}, securityContext={"windowsOptions": {"hostProcess": True}}),
     ['hostProcess (pod and container "c" must not set securityContext.windowsOptions.hostProcess=true)']),
    ({"containers": [{"name": "c", "livenessProbe": {"httpGet": {"host": "a"}},
                      "lifecycle": {"preStop": {"tcpSocket": {"host": "b"}}}}]},
     ['probe or lifecycle host (container "c" uses probe or lifecycle hosts "a", "b")']),
    (spec() | {"ephemeralContainers": [{"name": "e", "securityContext": {"privileged": True}}]},
     ['privileged (container "e" must not set securityContext.privileged=true)']),
]  # fmt: skip


def texts(found):
    return [f"{reason} ({detail})" for reason, detail in found]


@pytest.mark.parametrize(("given", "expected"), BASELINE)
def test_baseline_forbids_access_to_the_host(given, expected):
    assert texts(findings(False, 36, {}, given)) == expected


RESTRICTED = [
    (GOOD, []),
    (spec(), [
        'allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false)',
        'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"])',
        'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true)',
        ('seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or '
        '"Localhost")'),
    ]),
    (GOOD | {"volumes": [{"name": "n", "nfs": {}}, {"name": "h", "hostPath": {}}, {"name": "e", "emptyDir": {}}]},
     ['restricted volume types (volumes "n", "h" use restricted volume types "hostPath", "nfs")']),
    (GOOD | {"volumes": [{"name": "x"}]},
     ['restricted volume types (volume "x" uses restricted volume type "unknown")']),
    (GOOD | {"containers": [{"name": "c", "securityContext": SAFE | {"runAsUser": 0, "runAsNonRoot": False}}]},
     ['runAsNonRoot != true (container "c" must not set securityContext.runAsNonRoot=false)',
      'runAsUser=0 (container "c" must not set runAsUser=0)']),
    (GOOD | {"containers": [{"name": "c", "securityContext": SAFE | {
        "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE", "CHOWN"]}}}]},
     ['unrestricted capabilities (container "c" must not include "CHOWN" in securityContext.capabilities.add)']),
    ({"os": {"name": "windows"}, "securityContext": {"runAsNonRoot": True}, "containers": [{"name": "c"}]}, []),
]  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), RESTRICTED)
def test_restricted_requires_pods_to_drop_privileges(given, expected):
    assert texts(findings(True, 36, {}, given)) == expected


VERSIONS = [
    # restricted, minor, spec, reasons
    (False, 33, {"containers": [{"name": "c", "livenessProbe": {"httpGet": {"host": "a"}}}]}, []),
    (False, 34, {"containers": [{"name": "c", "livenessProbe": {"httpGet": {"host": "a"}}}]},
     ["probe or lifecycle host"]),
    (False, 30, spec({"seLinuxOptions": {"type": "container_engine_t"}}), ["seLinuxOptions"]),
    (False, 34, spec({"procMount": "Unmasked"}, hostUsers=False), ["procMount"]),
    (True, 35, GOOD | spec(SAFE | {"procMount": "Unmasked"}, hostUsers=False), ["procMount"]),
    (True, 7, spec(), ["runAsNonRoot != true"]),
    (True, 18, spec(), ["allowPrivilegeEscalation != false", "runAsNonRoot != true"]),
    (True, 21, spec({"capabilities": {"add": ["SYS_ADMIN"]}, "allowPrivilegeEscalation": False}),
     ["non-default capabilities", "runAsNonRoot != true", "seccompProfile"]),
    (True, 24, {"os": {"name": "windows"}, **GOOD, "containers": [{"name": "c"}]},
     ["allowPrivilegeEscalation != false", "unrestricted capabilities"]),
    (False, 26, spec(securityContext={"sysctls": [{"name": "net.ipv4.ip_local_reserved_ports"}]}),
     ["forbidden sysctls"]),
    (False, 27, spec(securityContext={"sysctls": [{"name": "net.ipv4.ip_local_reserved_ports"}]}), []),
]  # fmt: skip


@pytest.mark.parametrize(("restricted", "minor", "given", "reasons"), VERSIONS)
def test_checks_depend_on_the_version_of_the_standard(restricted, minor, given, reasons):
    assert [reason for reason, _ in findings(restricted, minor, {}, given)] == reasons


def test_deprecated_annotations_are_checked():
    metadata = {"annotations": {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}}
    assert texts(findings(False, 36, metadata, spec())) == [
        (
            "forbidden AppArmor profile (annotation must not set AppArmor profile type to "
            '"container.apparmor.security.beta.kubernetes.io/c="unconfined"")'
        )
    ]
    metadata = {"annotations": {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}}
    assert texts(findings(False, 18, metadata, spec())) == [
        'seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined")'
    ]
    assert findings(False, 19, metadata, spec()) == []


POLICIES = [
    ({}, ("privileged:latest", "privileged:latest", "privileged:latest")),
    ({"enforce": "baseline"}, ("baseline:latest", "privileged:latest", "baseline:latest")),
    ({"enforce": "restricted", "enforce-version": "v1.30"},
     ("restricted:v1.30", "privileged:latest", "restricted:v1.30")),
    ({"enforce": "restricted", "enforce-version": "v1.30", "warn-version": "v1.20"},
     ("restricted:v1.30", "privileged:latest", "restricted:v1.20")),
    ({"enforce": "restricted", "warn": "privileged"},
     ("restricted:latest", "privileged:latest", "privileged:latest")),
    ({"enforce": "nonsense", "warn": "nonsense", "audit": "nonsense"},
     ("restricted:latest", "privileged:latest", "privileged:latest")),
]  # fmt: skip


@pytest.mark.parametrize(("labels", "expected"), POLICIES)
def test_labels_are_parsed_to_a_policy(labels, expected):
    found = policy({f"{LABEL}{name}": value for name, value in labels.items()})
    assert (str(found.enforce), str(found.audit), str(found.warn)) == expected


@pytest.mark.parametrize("version", ["1.2", "v1", "v1.02", "v2.1", "v1.-1", "v1.1\n", ""])
def test_invalid_versions_are_reported(version):
    (wrong,) = policy({f"{LABEL}enforce-version": version}).wrong
    assert wrong.field == f"metadata.labels[{LABEL}enforce-version]"
    assert wrong.body.endswith('must be "latest" or "v1.x"')


def pod(**more):
    return {"metadata": {"name": "p"}, "spec": spec(**more)}


@pytest.fixture
def labelled(things):
    def add(**labels):
        found = {f"{LABEL}{name}": value for name, value in labels.items()}
        things.add("", "namespaces", "n", metadata={"labels": found})

    return add


async def test_pods_that_violate_the_enforced_standard_are_refused(admit, labelled):
    labelled(enforce="baseline")
    with pytest.raises(StatusError) as refused:
        await admit(pod_security, pod(hostPID=True))
    assert refused.value.message == (
        'pods "p" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostPID=true)'
    )


async def test_updates_of_images_and_containers_are_checked_and_others_are_not(admit, labelled):
    labelled(enforce="baseline")
    old = pod(hostPID=True)
    await admit(pod_security, {**old, "metadata": {"name": "p", "labels": {"a": "b"}}}, old=old)
    other = pod(hostPID=True)
    other["spec"]["containers"][0]["image"] = "other"
    more = pod(hostPID=True)
    more["spec"]["ephemeralContainers"] = [{"name": "e", "image": "i"}]
    for each in (other, more):
        with pytest.raises(StatusError, match="violates PodSecurity"):
            await admit(pod_security, each, old=old)
    await admit(pod_security, other, old=old, subresource="status")
    changed = pod(hostPID=True)
    changed["spec"]["ephemeralContainers"] = [{"name": "e", "image": "j"}]
    with pytest.raises(StatusError, match="violates PodSecurity"):
        await admit(pod_security, changed, old=more)
    await admit(pod_security, {**more, "metadata": {"name": "p", "labels": {"a": "b"}}}, old=more)


async def test_namespaces_without_labels_restrict_nothing(admit, labelled):
    labelled()
    await admit(pod_security, pod(hostPID=True))


WOULD = 'would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)'


async def test_violations_of_pods_and_templates_are_warned_of(admit, labelled, scope):
    labelled(warn="baseline")
    here = scope("", "pods")
    await admit(pod_security, pod(hostPID=True), scope=here)
    assert here.warnings == [WOULD]
    template = {"metadata": {}, "spec": spec(hostPID=True)}
    for group, plural, content in (
        ("apps", "deployments", {"spec": {"template": template}}),
        ("batch", "cronjobs", {"spec": {"jobTemplate": {"spec": {"template": template}}}}),
        ("", "podtemplates", {"template": template}),
    ):
        here = scope(group, plural)
        await admit(pod_security, {"metadata": {"name": "x"}, **content}, scope=here)
        assert here.warnings == [WOULD], plural


async def test_templates_are_not_refused(admit, labelled, scope):
    labelled(enforce="baseline", warn="privileged")
    here = scope("apps", "deployments")
    content = {"metadata": {"name": "x"}, "spec": {"template": {"spec": spec(hostPID=True)}}}
    await admit(pod_security, content, scope=here)
    assert here.warnings == []


VIOLATIONS, ENFORCED = f"{LABEL}audit-violations", f"{LABEL}enforce-policy"


async def test_audit_annotations_name_the_standard_and_its_violations(admit, labelled, scope):
    labelled(enforce="baseline", audit="restricted", warn="privileged")
    here = scope("", "pods")
    await admit(pod_security, pod(), scope=here)
    assert here.audit.annotations[ENFORCED] == "baseline:latest"
    assert here.audit.annotations[VIOLATIONS].startswith('would violate PodSecurity "restricted:latest": ')
    here = scope("", "pods")
    with pytest.raises(StatusError):
        await admit(pod_security, pod(hostPID=True), scope=here)
    assert "host namespaces (hostPID=true)" in here.audit.annotations[VIOLATIONS]


async def test_audit_annotations_of_templates_are_only_violations(admit, labelled, scope):
    labelled(enforce="baseline", audit="baseline")
    here = scope("apps", "deployments")
    content = {"metadata": {"name": "x"}, "spec": {"template": {"spec": spec(hostPID=True)}}}
    await admit(pod_security, content, scope=here)
    assert list(here.audit.annotations) == [VIOLATIONS]


async def test_invalid_labels_are_audited(admit, labelled, scope):
    labelled(audit="strict")
    here = scope("", "pods")
    await admit(pod_security, pod(), scope=here)
    assert here.audit.annotations[f"{LABEL}error"] == (
        'Failed to parse policy: metadata.labels[pod-security.kubernetes.io/audit]: Invalid value: "strict": '
        "must be one of privileged, baseline, restricted"
    )


@pytest.mark.parametrize(
    ("exempt", "why"),
    [
        (Exemptions(namespaces=frozenset({"n"})), "namespace"),
        (Exemptions(usernames=frozenset({"jane"})), "user"),
        (Exemptions(runtime_classes=frozenset({"gvisor"})), "runtimeClass"),
        (Exemptions(namespaces=frozenset({"m"}), usernames=frozenset({"joe"})), ""),
    ],
)
async def test_exempt_requests_are_not_checked(admit, labelled, scope, exempt, why):
    labelled(enforce="baseline")
    plugin, here = PodSecurity(Settings(exemptions=exempt)), scope("", "pods")
    wanted = pod(hostPID=True, runtimeClassName="gvisor")
    if why:
        await admit(plugin, wanted, scope=here)
        assert here.audit.annotations == {f"{LABEL}exempt": why}
    else:
        with pytest.raises(StatusError, match="violates PodSecurity"):
            await admit(plugin, wanted, scope=here)


async def test_labels_of_an_exempt_namespace_are_ignored_with_a_warning(admit, scope):
    plugin = PodSecurity(Settings(exemptions=Exemptions(namespaces=frozenset({"n"}))))
    here = scope(*NAMESPACES)
    await admit(plugin, namespace(enforce="baseline"), scope=here)
    assert here.warnings == [
        'namespace "n" is exempt from Pod Security, and the policy (enforce=baseline:latest) will be ignored'
    ]


async def test_configured_defaults_apply_without_labels(admit, labelled):
    plugin = PodSecurity(Settings(standard=Policy(enforce=Standard("baseline", 30))))
    labelled()
    with pytest.raises(StatusError, match=r'violates PodSecurity "baseline:v1\.30"'):
        await admit(plugin, pod(hostPID=True))
    labelled(enforce="privileged")
    await admit(plugin, pod(hostPID=True))


def namespace(**labels):
    return {"metadata": {"name": "n", "labels": {f"{LABEL}{name}": value for name, value in labels.items()}}}


NAMESPACES = ("", "namespaces")


async def test_new_invalid_labels_are_refused(admit):
    with pytest.raises(StatusError) as refused:
        await admit(pod_security, namespace(enforce="strict"), of=NAMESPACES)
    assert refused.value.code == 422
    assert refused.value.message.startswith(' "n" is invalid: ')
    assert refused.value.message.endswith(
        f'metadata.labels[{LABEL}enforce]: Invalid value: "strict": must be one of privileged, baseline, restricted'
    )
    with pytest.raises(StatusError, match="Invalid value"):
        await admit(pod_security, namespace(enforce="strict"), of=NAMESPACES, old=namespace())
    await admit(pod_security, namespace(enforce="strict"), of=NAMESPACES, old=namespace(enforce="strict"))


@pytest.mark.parametrize(
    ("before", "after", "warned"),
    [
        ({}, {"enforce": "baseline"}, True),
        ({"enforce": "baseline"}, {"enforce": "restricted"}, True),
        ({"enforce": "restricted"}, {"enforce": "baseline"}, False),
        ({"enforce": "baseline"}, {"enforce": "baseline", "enforce-version": "v1.30"}, True),
        ({"enforce": "baseline"}, {}, False),
        ({"enforce": "baseline"}, {"enforce": "baseline", "warn": "restricted"}, False),
    ],
)
async def test_a_stricter_level_warns_of_existing_pods(admit, things, scope, before, after, warned):
    things.add("", "pods", "p", "n", spec=spec(hostPID=True))
    here = scope(*NAMESPACES)
    await admit(pod_security, namespace(**after), old=namespace(**before), scope=here)
    assert bool(here.warnings) is warned


async def checked(pods):
    async def each():
        for pod in pods:
            yield pod

    return await existing("n", Standard("baseline"), each)


async def test_warnings_about_existing_pods_are_grouped_by_violation():
    def named(name, owner="", **more):
        owners = [{"uid": owner, "controller": True}] if owner else []
        return {"metadata": {"name": name, "ownerReferences": owners}, "spec": spec(**more)}

    pods = [named("b", hostPID=True), named("a", hostPID=True), named("c")]
    pods = [*pods, named("d", "o", hostPID=True), named("e", "o", hostPID=True), named("fine")]
    pods[2]["spec"] = spec({"privileged": True})
    assert await checked(pods) == [
        'existing pods in namespace "n" violate the new PodSecurity enforce level "baseline:latest"',
        "a (and 3 other pods): host namespaces",
        "c: privileged",
    ]
    assert (await checked([named("a", hostPID=True), named("b", hostPID=True)]))[1:] == [
        "a (and 1 other pod): host namespaces"
    ]


async def test_one_pod_of_each_controller_is_checked_first():
    def owned(name, owner, **more):
        owners = [{"uid": owner, "controller": True}]
        return {"metadata": {"name": name, "ownerReferences": owners}, "spec": spec(**more)}

    many = [owned(f"a{number}", "a") for number in range(MAX_PODS)]
    pods = [*many, owned("b", "b", hostPID=True), {"metadata": {"name": "c"}, "spec": spec(hostIPC=True)}]
    alone = [{"metadata": {"name": "d"}, "spec": spec(hostNetwork=True)}]
    assert (await checked([*pods, *alone]))[2:] == ["b (and 2 other pods): host namespaces"]


async def test_the_number_of_checked_pods_is_bounded():
    pods = [{"metadata": {"name": f"p{each}"}, "spec": spec()} for each in range(MAX_PODS + 1)]
    assert await checked(pods) == [
        f"new PodSecurity enforce level only checked against the first {MAX_PODS} of {MAX_PODS + 1} existing pods"
    ]


async def test_other_tasks_run_while_many_pods_are_checked():
    seen, sizes = [], []

    async def each():
        for number in range(1000):
            seen.append(number)
            yield {"metadata": {"name": f"p{number}"}, "spec": spec()}

    task = asyncio.ensure_future(existing("n", Standard("baseline"), each))
    while not task.done():
        sizes.append(len(seen))
        await asyncio.sleep(0)
    assert (await task, len(seen)) == ([], 1000)
    assert max(b - a for a, b in pairwise(sizes)) <= 100
