"""Audiences for which the volumes of a Pod need tokens, and the objects that are read for that."""

from typing import Any

import pytest

from vcsync.apiserver.admission.pod_audiences import Volumes

THERE = {
    ("", "persistentvolumeclaims", "c", "a"): {"spec": {"volumeName": "v"}},
    ("", "persistentvolumeclaims", "loose", "a"): {"spec": {}},
    ("", "persistentvolumes", "v", ""): {"spec": {"csi": {"driver": "d"}}},
    ("storage.k8s.io", "csidrivers", "d", ""): {"spec": {"tokenRequests": [{"audience": "disk"}, {}]}},
}


class Lookup:
    async def get(self, tenant: str, group: str, plural: str, name: str, namespace: str = "") -> Any:
        assert tenant == "acme"
        return THERE.get((group, plural, name, namespace))


def pod(*volumes: dict[str, Any], namespace: str = "a") -> dict[str, Any]:
    return {"metadata": {"name": "p", "namespace": namespace}, "spec": {"volumes": list(volumes)}}


CLAIM = {"name": "x", "persistentVolumeClaim": {"claimName": "c"}}
TOKEN = {
    "name": "y",
    "projected": {"sources": [{"serviceAccountToken": {"audience": "vault"}}, {"secret": {}}]},
}


@pytest.mark.parametrize(
    ("given", "audience", "needed", "problems"),
    [
        (pod(CLAIM), "disk", True, []),
        (pod(CLAIM), "", True, []),
        (pod(CLAIM), "vault", False, []),
        (pod(TOKEN, CLAIM), "vault", True, []),
        (pod({"name": "z", "csi": {"driver": "d"}}), "disk", True, []),
        (
            pod({"name": "z", "csi": {"driver": "e"}}),
            "disk",
            False,
            ['csidriver.storage.k8s.io "e" not found'],
        ),
        (pod({"name": "z", "emptyDir": {}}), "disk", False, []),
        (pod({"name": "z", "projected": {"sources": [{"serviceAccountToken": {}}]}}), "", True, []),
        (pod({"name": "z", "projected": {"sources": [{"secret": {}}]}}), "", False, []),
        (pod(CLAIM, namespace="b"), "disk", False, ['persistentvolumeclaim "c" not found']),
        (
            pod({"name": "z", "persistentVolumeClaim": {"claimName": "loose"}}),
            "disk",
            False,
            ['persistentvolume "" not found'],
        ),
        ({"metadata": {"name": "p"}}, "disk", False, []),
    ],
)
async def test_volumes_need_tokens_for_audiences_of_projections_and_drivers(
    given: dict[str, Any], audience: str, needed: bool, problems: list[str]
) -> None:
    volumes = Volumes(Lookup(), "acme", given)  # type: ignore[arg-type]
    assert await volumes.need_token_for(audience) is needed
    assert volumes.problems == problems
