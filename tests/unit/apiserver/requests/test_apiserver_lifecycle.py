"""Nothing is created in terminating or missing namespaces, and protected objects cannot be deleted."""

import pytest

ENDING = "/api/v1/namespaces/ending"


@pytest.fixture
async def ending(api):
    """A namespace that is being deleted, with a Pod and an account in it."""
    await api("POST", "/api/v1/namespaces", {"metadata": {"name": "ending"}})
    await api("POST", f"{ENDING}/serviceaccounts", {"metadata": {"name": "robot"}})
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert (await api("POST", f"{ENDING}/pods", pod)).status == 201
    assert (await api("DELETE", ENDING)).body["status"]["phase"] == "Terminating"


BELOW = [
    (
        f"{ENDING}/pods/p/binding",
        {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}},
        'pods "p"',
    ),
    (
        f"{ENDING}/bindings",
        {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}},
        'bindings "p"',
    ),
    (f"{ENDING}/pods/p/eviction", {"metadata": {"name": "p"}}, 'pods "p"'),
    (f"{ENDING}/serviceaccounts/robot/token", {"spec": {}}, 'serviceaccounts "robot"'),
    (f"{ENDING}/configmaps", {"metadata": {"name": "m"}}, 'configmaps "m"'),
    (f"{ENDING}/configmaps", {"metadata": {"generateName": "m-"}}, 'configmaps "m-"'),
]


@pytest.mark.parametrize(("path", "body", "what"), BELOW)
async def test_a_terminating_namespace_refuses_creations(api, ending, path, body, what):
    answer = await api("POST", path, body)
    why = "unable to create new content in namespace ending because it is being terminated"
    assert (answer.status, answer.body["message"]) == (403, f"{what} is forbidden: {why}")
    assert [each["reason"] for each in answer.body["details"]["causes"]] == ["NamespaceTerminating"]


@pytest.mark.parametrize(("path", "body", "_"), BELOW[:4])
async def test_creations_in_a_missing_namespace_report_the_namespace(api, path, body, _):
    answer = await api("POST", path, body)
    assert (answer.status, answer.body["message"]) == (404, 'namespaces "ending" not found')


async def test_access_reviews_do_not_reveal_namespaces(api):
    path = "/apis/authorization.k8s.io/v1/namespaces/none/localsubjectaccessreviews"
    body = {
        "metadata": {"namespace": "none"},
        "spec": {"user": "jane", "resourceAttributes": {"namespace": "none"}},
    }
    assert (await api("POST", path, body)).status == 201


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/api/v1/namespaces/kube-system", "this namespace may not be deleted"),
        ("/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
         "this is a system priority class and cannot be deleted"),
    ],
)  # fmt: skip
async def test_protected_objects_cannot_be_deleted(api, path, said):
    answer = await api("DELETE", path)
    assert (answer.status, answer.body["message"].partition("forbidden: ")[2]) == (403, said)
