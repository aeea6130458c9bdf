"""Pods get their account, token, priority, tolerations and runtime; what contradicts them is refused."""

import pytest

from vcsync.controlplane.admission import pods, runtime_classes, service_accounts
from vcsync.controlplane.errors import StatusError


def pod(**spec):
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}], **spec}}


async def at_once(seconds: float) -> None:
    assert seconds > 0


account = service_accounts.ServiceAccounts(attempts=3, pause=at_once)


async def test_a_pod_gets_the_default_account_and_its_token(asked, things):
    things.add("", "serviceaccounts", "default", "n")
    found = (await asked(account, pod(initContainers=[{"name": "i"}])))["spec"]
    assert found["serviceAccountName"] == found["serviceAccount"] == "default"
    (volume,) = found["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    token = volume["projected"]["sources"][0]["serviceAccountToken"]
    assert token == {"expirationSeconds": 3607, "path": "token"}
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
async def test_the_pod_decides_over_its_token_before_its_account(asked, things, of_account, of_pod, mounted):
    given = {} if of_account is None else {"automountServiceAccountToken": of_account}
    things.add("", "serviceaccounts", "default", "n", **given)
    found = await asked(account, pod(**({} if of_pod is None else {"automountServiceAccountToken": of_pod})))
    assert ("volumes" in found["spec"]) is mounted


async def test_a_place_that_is_taken_stays_so(asked, things):
    things.add("", "serviceaccounts", "default", "n")
    mounts = [{"name": "own", "mountPath": service_accounts.TOKEN_PATH}]
    found = await asked(account, pod(containers=[{"name": "c", "volumeMounts": mounts}]))
    assert "volumes" not in found["spec"]
    assert found["spec"]["containers"][0]["volumeMounts"] == mounts


async def test_pull_secrets_come_from_the_account_unless_the_pod_has_some(asked, things):
    things.add("", "serviceaccounts", "default", "n", imagePullSecrets=[{"name": "registry"}])
    assert (await asked(account, pod()))["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    own = [{"name": "own"}]
    assert (await asked(account, pod(imagePullSecrets=own)))["spec"]["imagePullSecrets"] == own


async def test_a_missing_account_is_refused(asked):
    with pytest.raises(StatusError) as refused:
        await asked(account, pod(serviceAccountName="none"))
    assert refused.value.message == (
        'pods "p" is forbidden: error looking up service account n/none: serviceaccount "none" not found'
    )


async def test_the_default_account_of_a_new_namespace_is_waited_for(asked, things):
    pauses = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            things.add("", "serviceaccounts", "default", "n")

    await asked(service_accounts.ServiceAccounts(attempts=5, pause=pause), pod())
    assert len(pauses) == 2
    things.there.clear()
    with pytest.raises(StatusError, match='serviceaccount "default" not found'):
        await asked(service_accounts.ServiceAccounts(attempts=5, pause=at_once), pod())


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
async def test_an_account_can_hold_pods_to_its_secrets(asked, things, spec, said):
    annotations = {"kubernetes.io/enforce-mountable-secrets": "true"}
    things.add(
        "", "serviceaccounts", "strict", "n", metadata={"annotations": annotations}, secrets=[{"name": "ok"}]
    )
    given = pod(serviceAccountName="strict", **spec)
    if not said:
        await asked(account, given)
        return
    with pytest.raises(StatusError) as refused:
        await asked(account, given)
    assert refused.value.message == f'pods "p" is forbidden: {said}'


MIRRORS = [
    ({}, ""),
    ({"serviceAccountName": "a"}, "a mirror pod may not reference service accounts"),
    ({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}, "a mirror pod may not reference secrets"),
    ({"containers": [{"name": "c", "env": env("s")}]}, "a mirror pod may not reference secrets"),
]


@pytest.mark.parametrize(("spec", "said"), MIRRORS)
async def test_mirror_pods_have_no_account(asked, spec, said):
    given = pod(**spec)
    given["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    if not said:
        assert await asked(account, given) == given
        return
    with pytest.raises(StatusError, match=said):
        await asked(account, given)


GROUP, CLASSES = "scheduling.k8s.io", "priorityclasses"


async def test_a_pod_gets_the_value_of_its_class(asked, things):
    things.add(GROUP, CLASSES, "high", value=1000, preemptionPolicy="Never")
    found = (await asked(pods.priority, pod(priorityClassName="high")))["spec"]
    assert (found["priority"], found["preemptionPolicy"]) == (1000, "Never")


async def test_without_a_class_the_default_counts_else_nothing(asked, things):
    found = (await asked(pods.priority, pod()))["spec"]
    assert (found["priority"], found["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert "priorityClassName" not in found
    things.add(GROUP, CLASSES, "usual", value=10, globalDefault=True)
    things.add(GROUP, CLASSES, "usual-too", value=20, globalDefault=True)
    found = (await asked(pods.priority, pod()))["spec"]
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
async def test_a_pod_does_not_choose_its_priority_itself(asked, spec, said):
    with pytest.raises(StatusError, match=said):
        await asked(pods.priority, pod(**spec))


async def test_an_update_keeps_what_was_resolved(asked):
    old = pod(priority=7, preemptionPolicy="Never")
    assert (await asked(pods.priority, pod(), old=old))["spec"]["priority"] == 7
    assert (await asked(pods.priority, pod(priority=8), old=old))["spec"]["priority"] == 8


async def test_there_is_one_default_class(asked, things):
    things.add(GROUP, CLASSES, "usual", value=10, globalDefault=True)
    second = {"metadata": {"name": "second"}, "globalDefault": True}
    with pytest.raises(
        StatusError, match=r"PriorityClass usual is already marked as default\. Only one default can"
    ):
        await asked(pods.one_default_priority, second, of=(GROUP, CLASSES))
    with pytest.raises(StatusError, match="usual is already marked"):
        await asked(pods.one_default_priority, second, of=(GROUP, CLASSES), old=second)
    same = {"metadata": {"name": "usual"}, "globalDefault": True}
    await asked(pods.one_default_priority, same, of=(GROUP, CLASSES), old=same)
    await asked(pods.one_default_priority, {"metadata": {"name": "third"}}, of=(GROUP, CLASSES))


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
async def test_pods_stay_five_minutes_unless_they_say_otherwise(asked, given, added):
    found = (await asked(pods.default_tolerations, pod(tolerations=given)))["spec"]["tolerations"]
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


async def test_a_pod_gets_what_its_runtime_needs(asked, runtimes):
    found = (
        await asked(runtime_classes.runtime_class, pod(runtimeClassName="heavy", nodeSelector={"a": "b"}))
    )["spec"]
    assert found["overhead"] == {"cpu": "100m"}
    assert found["nodeSelector"] == {"a": "b", "kind": "heavy"}
    assert found["tolerations"] == [TOLERATION]
    assert await asked(runtime_classes.runtime_class, found_pod := pod(runtimeClassName="light")) == found_pod


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
async def test_a_pod_does_not_contradict_its_runtime(asked, runtimes, spec, said):
    with pytest.raises(StatusError) as refused:
        await asked(runtime_classes.overhead, await asked(runtime_classes.runtime_class, pod(**spec)))
    assert refused.value.message == f'pods "p" is forbidden: {said}'


async def test_an_overhead_is_the_same_in_any_notation(asked, runtimes):
    found = await asked(runtime_classes.runtime_class, pod(runtimeClassName="heavy", overhead={"cpu": "0.1"}))
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
        ([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}, {"key": "k", "operator": "Exists"}],
         [{"key": "k", "operator": "Exists"}]),
    ],
)  # fmt: skip
def test_a_toleration_that_another_covers_is_left_out(tolerations, left):
    assert runtime_classes.merged(tolerations) == left


async def test_a_runtime_without_a_name_is_an_error_of_the_real_server_too(asked):
    with pytest.raises(StatusError, match="resource name may not be empty") as refused:
        await asked(runtime_classes.runtime_class, pod(runtimeClassName=""))
    assert refused.value.code == 500


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
async def test_a_mirror_pod_refers_to_nothing_secret(asked, more, said):
    mirror = pod(**more)
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    with pytest.raises(StatusError, match=said):
        await asked(account, mirror)


async def test_ephemeral_containers_are_held_to_their_accounts_secrets(asked, things):
    strict = {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}
    things.add("", "serviceaccounts", "strict", "n", metadata=strict, secrets=[{"name": "ok"}])
    old = pod(serviceAccountName="strict")

    async def with_secret(name):
        each = {"name": "e", "envFrom": [{"secretRef": {"name": name}}]}
        new = pod(serviceAccountName="strict", ephemeralContainers=[each])
        await asked(account.of_ephemeral, new, old=old, subresource="ephemeralcontainers")

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
