"""LimitRanges: default resources of containers, and bounds of Pods and claims."""

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.admission import limits


def container(name="c", **resources):
    return {"name": name, "resources": resources} if resources else {"name": name}


def pod(*containers, init=()):
    return {"metadata": {"name": "p"}, "spec": {"containers": list(containers), "initContainers": list(init)}}


DEFAULTS = {
    "type": "Container",
    "default": {"cpu": "200m", "memory": "128Mi"},
    "defaultRequest": {"cpu": "100m"},
}


async def test_missing_resources_are_set_and_recorded_in_an_annotation(admit, things):
    things.add("", "limitranges", "l", "n", spec={"limits": [DEFAULTS]})
    found = await admit(limits.limit_defaults, pod(container("a"), container("b", requests={"cpu": "1m"})))
    assert [each["resources"] for each in found["spec"]["containers"]] == [
        {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m", "memory": "128Mi"}},
        {"requests": {"cpu": "1m"}, "limits": {"cpu": "200m", "memory": "128Mi"}},
    ]
    assert found["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu request for container a; "
        "cpu, memory limit for container a; cpu, memory limit for container b"
    }


async def test_pods_are_unchanged_without_defaults(admit, things):
    things.add("", "limitranges", "l", "n", spec={"limits": [{"type": "Container", "max": {"cpu": "1"}}]})
    assert await admit(limits.limit_defaults, pod(container())) == pod(container())


async def test_only_creations_of_pods_get_defaults(admit, things):
    things.add("", "limitranges", "l", "n", spec={"limits": [DEFAULTS]})
    assert await admit(limits.limit_defaults, pod(container()), old=pod(container())) == pod(container())
    of = ("apps", "deployments")
    assert await admit(limits.limit_defaults, pod(container()), of=of) == pod(container())


MIN, MAX = {"type": "Container", "min": {"cpu": "50m"}}, {"type": "Container", "max": {"cpu": "1"}}
RATIO = {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}
WHOLE = {"type": "Pod", "max": {"memory": "100Mi"}}
SAID = [
    (MIN, pod(container(requests={"cpu": "50m"})), ""),
    (MIN, pod(container()), "minimum cpu usage per Container is 50m.  No request is specified"),
    (MIN, pod(container(requests={"cpu": "1m"})), "minimum cpu usage per Container is 50m, but request is 1m"),
    (MIN, pod(container(requests={"cpu": "1"}, limits={"cpu": "2m"})),
     "minimum cpu usage per Container is 50m, but limit is 2m"),
    (MAX, pod(container(limits={"cpu": "1"})), ""),
    (MAX, pod(container()), "maximum cpu usage per Container is 1.  No limit is specified"),
    (MAX, pod(container(limits={"cpu": "1100m"})), "maximum cpu usage per Container is 1, but limit is 1100m"),
    (MAX, pod(container(limits={"cpu": "1"}, requests={"cpu": "2"})),
     "maximum cpu usage per Container is 1, but request is 2"),
    (MAX, pod(container("a"), init=[container(limits={"cpu": "2"})]),
     ("[maximum cpu usage per Container is 1.  No limit is specified, "
      "maximum cpu usage per Container is 1, but limit is 2]")),
    (RATIO, pod(container(requests={"cpu": "1"}, limits={"cpu": "2"})), ""),
    (RATIO, pod(container(requests={"cpu": "1"}, limits={"cpu": "3"})),
     "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000"),
    (RATIO, pod(container(limits={"cpu": "3"})),
     "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"),
    (RATIO, pod(container(requests={"cpu": "3"})),
     "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0"),
    (WHOLE, pod(container(limits={"memory": "50Mi"}), container(limits={"memory": "50Mi"})), ""),
    (WHOLE, pod(container(limits={"memory": "60Mi"}), container(limits={"memory": "60Mi"})),
     "maximum memory usage per Pod is 100Mi, but limit is 120Mi"),
    (WHOLE, pod(container()), "maximum memory usage per Pod is 100Mi.  No limit is specified"),
]  # fmt: skip


@pytest.mark.parametrize(("limit", "given", "said"), SAID)
async def test_bounds_of_pods_are_enforced(admit, things, limit, given, said):
    things.add("", "limitranges", "l", "n", spec={"limits": [limit]})
    if not said:
        await admit(limits.limit_bounds, given)
        return
    with pytest.raises(StatusError) as refused:
        await admit(limits.limit_bounds, given)
    assert refused.value.message == f'pods "p" is forbidden: {said}'


def claim(size):
    return {"metadata": {"name": "c"}, "spec": {"resources": {"requests": {"storage": size}}}}


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ("1Gi", ""),
        ("2Gi", ""),
        ("1Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"),
        ("3Gi", "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"),
    ],
)
async def test_bounds_of_claims_are_enforced(admit, things, size, said):
    bounds = {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}
    things.add("", "limitranges", "l", "n", spec={"limits": [bounds]})
    of = ("", "persistentvolumeclaims")
    if not said:
        await admit(limits.limit_bounds, claim(size), of=of)
        return
    with pytest.raises(StatusError, match=said):
        await admit(limits.limit_bounds, claim(size), of=of)


async def test_terminating_objects_are_not_checked(admit, things):
    things.add(
        "",
        "limitranges",
        "l",
        "n",
        spec={"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "1"}}]},
    )
    old = {"metadata": {"name": "c", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    await admit(limits.limit_bounds, claim("1Gi"), of=("", "persistentvolumeclaims"), old=old)
