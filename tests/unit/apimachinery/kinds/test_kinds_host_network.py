"""Ports of the host's network have a default in Pods, and none in templates."""

import pytest

from vcsync.apimachinery.kinds.core import pod_defaults


def spec():
    container = {"name": "c", "image": "i", "ports": [{"containerPort": 80}]}
    return {
        "hostNetwork": True,
        "containers": [dict(container)],
        "initContainers": [dict(container, name="b")],
    }


@pytest.mark.parametrize(("default", "port"), [(pod_defaults.pod, 80), (pod_defaults.template, None)])
def test_only_pods_have_a_default(default, port):
    found = {"spec": spec()}
    default(found)
    for key in ("containers", "initContainers"):
        assert found["spec"][key][0]["ports"][0].get("hostPort") == port
