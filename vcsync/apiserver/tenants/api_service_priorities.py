"""The priorities of the APIServices of built-in groups, by which discovery orders groups and versions. Pure.

Source: kubernetes `pkg/controlplane/apiserver/aggregator.go` and `pkg/controlplane/instance.go`.
"""

from vcsync.objects.text_cache import cache_short_texts

BUILTIN = (
    ("v1", "", 18000, 1),
    ("v1", "admissionregistration.k8s.io", 16700, 15),
    ("v1", "apiextensions.k8s.io", 16700, 15),
    ("v1", "apps", 17800, 15),
    ("v1", "authentication.k8s.io", 17700, 15),
    ("v1", "authorization.k8s.io", 17600, 15),
    ("v1", "autoscaling", 17500, 15),
    ("v1", "batch", 17400, 15),
    ("v1", "certificates.k8s.io", 17300, 15),
    ("v1", "coordination.k8s.io", 16500, 15),
    ("v1", "discovery.k8s.io", 16200, 15),
    ("v1", "events.k8s.io", 17750, 15),
    ("v1", "flowcontrol.apiserver.k8s.io", 16100, 21),
    ("v1", "networking.k8s.io", 17200, 15),
    ("v1", "node.k8s.io", 16300, 15),
    ("v1", "policy", 17100, 15),
    ("v1", "rbac.authorization.k8s.io", 17000, 15),
    ("v1", "resource.k8s.io", 16200, 21),
    ("v1", "scheduling.k8s.io", 16600, 15),
    ("v1", "storage.k8s.io", 16800, 15),
    ("v2", "autoscaling", 17500, 30),
)
"""Version, group, `groupPriorityMinimum` and `versionPriority`, in the order of names."""
DEFINITION_GROUP = 1000
"""`groupPriorityMinimum` of the APIServices of CustomResourceDefinitions."""
DEFINITION_VERSION = 100
"""`versionPriority` of the APIServices of CustomResourceDefinitions."""
FIRST_GROUP = ("apiregistration.k8s.io", 20001)
"""The group that discovery lists first, and its priority. It has no APIService."""


@cache_short_texts(1024, 512)
def group_priority(group: str) -> int:
    """Return the `groupPriorityMinimum` of a group of this server: a built-in one or one of definitions."""
    found = [each for _, name, each, _ in BUILTIN if name == group]
    return FIRST_GROUP[1] if group == FIRST_GROUP[0] else max(found, default=DEFINITION_GROUP)


@cache_short_texts(1024, 512)
def version_priority(group: str, version: str) -> int:
    """Return the `versionPriority` of a version of this server: a built-in one or one of definitions."""
    return next((each[3] for each in BUILTIN if each[:2] == (version, group)), DEFINITION_VERSION)
