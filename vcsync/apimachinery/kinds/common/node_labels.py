"""Warnings about deprecated labels of nodes. Pure.

Source: Kubernetes' `pkg/api/node/util.go`.
"""

from collections.abc import Iterator

from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Object, indexed, text

_DEPRECATED = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}


def deprecated_label(key: str) -> str:
    """Return the advice about a deprecated label, or an empty string."""
    return _DEPRECATED.get(key, "")


def node_term_warnings(path: str, term: Object, *, weighted: bool) -> Iterator[str]:
    """Yield the warnings about one term of a node selector. Values are checked in weighted terms only."""
    for each, here in indexed(term, "matchExpressions", f"{path}.matchExpressions"):
        key = text(each, "key")
        if advice := deprecated_label(key):
            yield f"{here}.key: {key} is {advice}"
        if weighted:
            for value, place in indexed(each, "values", f"{here}.values"):
                for message in names.label_value(value):
                    yield f"{place}: {value} is invalid, {message}"
