"""Account, token, priority, tolerations and runtime class of Pods."""

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.admission import pods, runtime_classes, service_accounts


def pod(**spec):
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}], **spec}}


async def at_once(seconds: float) -> None:
    assert seconds > 0


account = service_accounts.ServiceAccounts(attempts=3, pause=at_once)


async def test_a_pod_gets_the_default_account_and_its_token(admit, things):
    things.add("", "serviceaccounts", "default", "n")
    found = (await admit(account, pod(initContainers=[{"name": "i"}])))["spec"]
    assert found["serviceAccountName"] == found["serviceAccount"] == "default"
    (volume,) = found["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    token = volume["projected"]["sources"][0]["serviceAccountToken"]
    assert token == {"expirationSeconds": 3607, "path": "token"}
    assert volume["projected"]["sources"][1:] == [
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {
            "downwardAPI": {
                "items": [
                    {
                        "path": "namespace",
                        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                    }
                ]
            }
        },
    ]
    for each in (*found["containers"], *found["initContainers"]):
        assert each["volumeMounts"] == [
            {
                "name": volume["name"],
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            }
        ]


@pytest.mark.parametrize(
    ("of_account", "of_pod", "mounted"),
    [(None, None, True), (False, None, False), (False, True, True), (True, False, False), (True, None, True)],
)
async def test_automount_of_the_pod_overrides_that_of_its_account(admit, things, of_account, of_pod, mounted):
    given = {} if of_account is None else {"automountServiceAccountToken": of_account}
    things.add("", "serviceaccounts", "default", "n", **given)
    found = await admit(account, pod(**({} if of_pod is None else {"automountServiceAccountToken": of_pod})))
    assert ("volumes" in found["spec"]) is mounted


async def test_existing_mounts_at_the_token_path_are_kept(admit, things):
    things.add("", "serviceaccounts", "default", "n")
    mounts = [{"name": "own", "mountPath": service_accounts.TOKEN_PATH}]
    found = await admit(account, pod(containers=[{"name": "c", "volumeMounts": mounts}]))
    assert "volumes" not in found["spec"]
    assert found["spec"]["containers"][0]["volumeMounts"] == mounts


async def test_pull_secrets_come_from_the_account_unless_the_pod_has_some(admit, things):
    things.add("", "serviceaccounts", "default", "n", imagePullSecrets=[{"name": "registry"}])
    assert (await admit(account, pod()))["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    own = [{"name": "own"}]
    assert (await admit(account, pod(imagePullSecrets=own)))["spec"]["imagePullSecrets"] == own


async def test_a_missing_account_is_refused(admit):
    with pytest.raises(StatusError) as refused:
        await admit(account, pod(serviceAccountName="none"))
    assert refused.value.message == (
        'pods "p" is forbidden: error looking up service account n/none: serviceaccount "none" not found'
    )


async def test_invalid_names_of_accounts_are_refused_without_a_look_up(admit):
    with pytest.raises(StatusError) as refused:
        await admit(account, pod(serviceAccountName="no/ne"))
    assert refused.value.message.endswith(
        "looking up service account n/no/ne: invalid resource name \"no/ne\": [may not contain '/']"
    )


async def test_the_default_account_of_a_new_namespace_is_waited_for(admit, things):
    pauses = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            things.add("", "serviceaccounts", "default", "n")

    await admit(service_accounts.ServiceAccounts(attempts=5, pause=pause), pod())
    assert len(pauses) == 2
    things.there.clear()
    with pytest.raises(StatusError, match='serviceaccount "default" not found'):
        await admit(service_accounts.ServiceAccounts(attempts=5, pause=at_once), pod())


def env(name):
    return [{"name": "E", "valueFrom": {"secretKeyRef": {"name": name, "key": "k"}}}]


NOT_LISTED = "is not allowed because service account strict does not reference that"
STRICT = [
    ({"volumes": [{"name": "v", "secret": {"secretName": "ok"}}]}, ""),
    ({"containers": [{"name": "c", "env": env("ok")}]}, ""),
    ({"volumes": [{"name": "v", "secret": {"secretName": "no"}}]},
     f'volume with secret.secretName="no" {NOT_LISTED} secret'),
    ({"containers": [{"name": "c", "env": env("no")}]},
     f'container c with envVar E referencing secret.secretName="no" {NOT_LISTED} secret'),
    ({"initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "no"}}]}]},
     f'init container i with envFrom referencing secret.secretName="no" {NOT_LISTED} secret'),
    ({"imagePullSecrets": [{"name": "no"}]}, f'imagePullSecrets[0].name="no" {NOT_LISTED} imagePullSecret'),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "said"), STRICT)
async def test_mountable_secrets_of_an_account_are_enforced(admit, things, spec, said):
    annotations = {"kubernetes.io/enforce-mountable-secrets": "true"}
    things.add(
        "", "serviceaccounts", "strict", "n", metadata={"annotations": annotations}, secrets=[{"name": "ok"}]
    )
    given = pod(serviceAccountName="strict", **spec)
    if not said:
        await admit(account, given)
        return
    with pytest.raises(StatusError) as refused:
        await admit(account, given)
    assert refused.value.message == f'pods "p" is forbidden: {said}'


MIRRORS = [
    ({}, ""),
    ({"serviceAccountName": "a"}, "a mirror pod may not reference service accounts"),
    ({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}, "a mirror pod may not reference secrets"),
    ({"containers": [{"name": "c", "env": env("s")}]}, "a mirror pod may not reference secrets"),
]


@pytest.mark.parametrize(("spec", "said"), MIRRORS)
async def test_mirror_pods_may_not_reference_accounts_or_secrets(admit, spec, said):
    given = pod(**spec)
    given["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    if not said:
        assert await admit(account, given) == given
        return
    with pytest.raises(StatusError, match=said):
        await admit(account, given)


GROUP, CLASSES = "scheduling.k8s.io", "priorityclasses"


async def test_pods_get_the_priority_of_their_class(admit, things):
    things.add(GROUP, CLASSES, "high", value=1000, preemptionPolicy="Never")
    found = (await admit(pods.priority, pod(priorityClassName="high")))["spec"]
    assert (found["priority"], found["preemptionPolicy"]) == (1000, "Never")


async def test_pods_without_a_class_get_the_default_priority_or_zero(admit, things):
    found = (await admit(pods.priority, pod()))["spec"]
    assert (found["priority"], found["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert "priorityClassName" not in found
    things.add(GROUP, CLASSES, "usual", value=10, globalDefault=True)
    things.add(GROUP, CLASSES, "usual-too", value=20, globalDefault=True)
    found = (await admit(pods.priority, pod()))["spec"]
    assert (found["priorityClassName"], found["priority"]) == ("usual", 10)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        ({"priority": 5}, (r"the integer value of priority \(5\) must not be provided in pod spec; "
         "priority admission controller computed 0 from the given PriorityClass name")),
        ({"preemptionPolicy": "Never"}, r"the string value of PreemptionPolicy \(Never\) must not be provided"),
    ],
)  # fmt: skip
async def test_priorities_that_contradict_the_class_are_refused(admit, spec, said):
    with pytest.raises(StatusError, match=said):
        await admit(pods.priority, pod(**spec))


async def test_updates_keep_the_resolved_priority(admit):
    old = pod(priority=7, preemptionPolicy="Never")
    assert (await admit(pods.priority, pod(), old=old))["spec"]["priority"] == 7
    assert (await admit(pods.priority, pod(priority=8), old=old))["spec"]["priority"] == 8


async def test_a_second_default_priority_class_is_refused(admit, things):
    things.add(GROUP, CLASSES, "usual", value=10, globalDefault=True)
    second = {"metadata": {"name": "second"}, "globalDefault": True}
    with pytest.raises(
        StatusError, match=r"PriorityClass usual is already marked as default\. Only one default can"
    ):
        await admit(pods.one_default_priority, second, of=(GROUP, CLASSES))
    with pytest.raises(StatusError, match="usual is already marked"):
        await admit(pods.one_default_priority, second, of=(GROUP, CLASSES), old=second)
    same = {"metadata": {"name": "usual"}, "globalDefault": True}
    await admit(pods.one_default_priority, same, of=(GROUP, CLASSES), old=same)
    await admit(pods.one_default_priority, {"metadata": {"name": "third"}}, of=(GROUP, CLASSES))


LOST = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([], LOST),
        ([{"operator": "Exists"}], []),
        ([{"key": LOST[0], "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}], LOST[1:]),
        ([{"key": LOST[1], "operator": "Exists", "effect": "NoSchedule"}], LOST),
        ([{"key": LOST[1], "operator": "Exists"}], LOST[:1]),
    ],
)
async def test_pods_get_default_tolerations_unless_they_have_their_own(admit, given, added):
    found = (await admit(pods.default_tolerations, pod(tolerations=given)))["spec"]["tolerations"]
    more = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300} for key in added
    ]
    assert found == [*given, *more]


TOLERATION = {"key": "heavy", "operator": "Exists"}


@pytest.fixture
def runtimes(things):
    scheduling = {"nodeSelector": {"kind": "heavy"}, "tolerations": [TOLERATION]}
    overhead = {"podFixed": {"cpu": "100m"}}
    things.add("node.k8s.io", "runtimeclasses", "heavy", overhead=overhead, scheduling=scheduling)
    things.add("node.k8s.io", "runtimeclasses", "light")


async def test_pods_get_the_overhead_and_scheduling_of_their_runtime_class(admit, runtimes):
    found = (
        await admit(runtime_classes.runtime_class, pod(runtimeClassName="heavy", nodeSelector={"a": "b"}))
    )["spec"]
    assert found["overhead"] == {"cpu": "100m"}
    assert found["nodeSelector"] == {"a": "b", "kind": "heavy"}
    assert found["tolerations"] == [TOLERATION]
    assert await admit(runtime_classes.runtime_class, found_pod := pod(runtimeClassName="light")) == found_pod


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
        ({"runtimeClassName": "heavy", "overhead": {"cpu": "1"}},
         "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"),
        ({"overhead": {"cpu": "1"}},
         "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"),
        ({"runtimeClassName": "heavy", "nodeSelector": {"kind": "light"}},
         "conflict: runtimeClass.scheduling.nodeSelector[kind] = heavy; pod.spec.nodeSelector[kind] = light"),
    ],
)  # fmt: skip
async def test_pods_that_contradict_their_runtime_class_are_refused(admit, runtimes, spec, said):
    with pytest.raises(StatusError) as refused:
        await admit(runtime_classes.overhead, await admit(runtime_classes.runtime_class, pod(**spec)))
    assert refused.value.message == f'pods "p" is forbidden: {said}'


async def test_overheads_are_compared_as_quantities(admit, runtimes):
    found = await admit(runtime_classes.runtime_class, pod(runtimeClassName="heavy", overhead={"cpu": "0.1"}))
    assert found["spec"]["overhead"] == {"cpu": "100m"}


ANY = {"operator": "Exists"}
FIRST, LONGER = (
    {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
    for seconds in (5, 9)
)


@pytest.mark.parametrize(
    ("tolerations", "left"),
    [
        ([ANY, {"key": "k", "operator": "Equal", "value": "v"}], [ANY]),
        ([{"key": "k", "operator": "Equal", "value": "v"}, ANY], [ANY]),
        ([FIRST, LONGER], [LONGER]),
        ([LONGER, FIRST], [LONGER]),
        ([TOLERATION, TOLERATION], [TOLERATION]),
        ([{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}],
         [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]),
        ([{"key": "k", "operator": "Equal", "value": "v"}, {"key": "k", "operator": "Equal", "value": "w"}],
         [{"key": "k", "operator": "Equal", "value": "v"}, {"key": "k", "operator": "Equal", "value": "w"}]),
        ([{"key": "k", "operator": "Equal", "value": "v"},
          {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}],
         [{"key": "k", "operator": "Equal", "value": "v"}]),
        ([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}, {"key": "k", "operator": "Exists"}],
         [{"key": "k", "operator": "Exists"}]),
    ],
)  # fmt: skip
def test_tolerations_that_another_covers_are_dropped(tolerations, left):
    assert runtime_classes.merged(tolerations) == left


EVICTED = {"key": "k", "operator": "Exists", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ({"key": "k", "operator": "Exists"}, {"operator": "Exists"}),
        ({"key": "k", "operator": "Exists"}, {"key": "l", "operator": "Equal", "value": "v"}),
        ({**ANY, "effect": "NoSchedule"}, {**ANY, "effect": "PreferNoSchedule"}),
        ({"key": "k", "operator": "Equal"}, {"key": "k", "operator": "Exists", "effect": "NoSchedule"}),
        ({**EVICTED, "tolerationSeconds": 0}, {**EVICTED, "tolerationSeconds": 1, "value": "v"}),
        ({"key": "k", "operator": "Lt", "value": "5"}, {"key": "k", "operator": "Lt", "value": "4"}),
    ],
)
def test_wider_tolerations_are_kept(wide, narrow):
    assert narrow in runtime_classes.merged([wide, narrow])


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        (EVICTED, {**EVICTED, "tolerationSeconds": 5}),
        ({**ANY, "effect": "NoExecute"}, EVICTED),
        (
            {"key": "k", "operator": "Equal"},
            {"key": "k", "operator": "Equal", "value": "", "effect": "NoSchedule"},
        ),
    ],
)
def test_duplicate_tolerations_are_dropped(wide, narrow):
    assert runtime_classes.merged([wide, narrow]) == runtime_classes.merged([narrow, wide]) == [wide]


@pytest.mark.parametrize(("count", "left"), [(200, 1), (201, 201)])
def test_the_number_of_merged_tolerations_is_bounded(count, left):
    assert len(runtime_classes.merged([ANY] * count)) == left


async def test_an_empty_runtime_class_name_is_an_internal_error_as_in_kube_apiserver(admit):
    with pytest.raises(StatusError, match="resource name may not be empty") as refused:
        await admit(runtime_classes.runtime_class, pod(runtimeClassName=""))
    assert (refused.value.code, refused.value.message) == (500, "resource name may not be empty")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"imagePullSecrets": [{"name": "s"}]}, "a mirror pod may not reference secrets"),
        ({"volumes": [{"name": "v", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "s"}}}]},
         "a mirror pod may not reference secrets"),
        ({"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
         "a mirror pod may not use ServiceAccountToken volume projections"),
    ],
)  # fmt: skip
async def test_mirror_pods_may_not_use_secrets_or_tokens(admit, more, said):
    mirror = pod(**more)
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    with pytest.raises(StatusError, match=said):
        await admit(account, mirror)


async def test_mountable_secrets_are_enforced_for_ephemeral_containers(admit, things):
    strict = {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}
    things.add("", "serviceaccounts", "strict", "n", metadata=strict, secrets=[{"name": "ok"}])
    old = pod(serviceAccountName="strict")

    async def with_secret(name):
        each = {"name": "e", "envFrom": [{"secretRef": {"name": name}}]}
        new = pod(serviceAccountName="strict", ephemeralContainers=[each])
        await admit(account.of_ephemeral, new, old=old, subresource="ephemeralcontainers")

    await with_secret("ok")
    with pytest.raises(StatusError) as refused:
        await with_secret("other")
    assert (refused.value.code, refused.value.message) == (
        500,
        (
            'ephemeral container e with envFrom referencing secret.secretName="other" is not allowed because '
            "service account strict does not reference that secret"
        ),
    )
