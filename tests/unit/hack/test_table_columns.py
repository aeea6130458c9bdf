"""The recorder of Table columns requests every resource that can be listed."""

from typing import Any

from hack import table_columns

ANSWERS: dict[str, Any] = {
    "/apis": {"groups": [{"name": "apps", "versions": [{"groupVersion": "apps/v1"}]}]},
    "/api/v1": {
        "resources": [
            {"name": "pods", "kind": "Pod", "verbs": ["get", "list"]},
            {"name": "pods/status", "kind": "Pod", "verbs": ["get"]},
            {"name": "bindings", "kind": "Binding", "verbs": ["create"]},
        ]
    },
    "/apis/apps/v1": {"resources": [{"name": "deployments", "kind": "Deployment", "verbs": ["list"]}]},
    "/api/v1/pods?limit=1": {"columnDefinitions": [{"name": "Name"}]},
    "/apis/apps/v1/deployments?limit=1": {
        "columnDefinitions": [{"name": "Ready"}],
        "items": [{"metadata": {"name": "d", "namespace": "n"}}],
    },
    "/apis/apps/v1/namespaces/n/deployments/d/scale": {"columnDefinitions": [{"name": "Desired"}]},
}


class FakeServer(table_columns.Server):
    def __init__(self) -> None:
        self.accepted: list[str] = []

    def get(self, path: str, accept: str = "application/json") -> Any:
        self.accepted.append(accept)
        return ANSWERS[path]


def test_columns_are_recorded_by_group_and_kind() -> None:
    server = FakeServer()
    assert table_columns.record(server) == {
        ("", "Pod"): [{"name": "Name"}],
        ("apps", "Deployment"): [{"name": "Ready"}],
        ("autoscaling", "Scale"): [{"name": "Desired"}],
    }
    assert server.accepted.count(table_columns.TABLE) == 3
