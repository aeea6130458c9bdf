"""Conversion webhooks are called only where the operator lets them, and believed only as far as the API does."""

import pytest

from vcsync.controlplane.crd import convert
from vcsync.controlplane.crd.convert import Converter, Refused, Target, Webhook, allow, refuse
from vcsync.controlplane.errors import StatusError

OLD = {
    "apiVersion": "a.b/v1",
    "kind": "Foo",
    "metadata": {"name": "x", "uid": "u", "labels": {"l": "1"}},
    "spec": 1,
}
HOOK = Webhook("foos.a.b", {"url": "https://hook.example/convert"}, ("v1",))


class Answering(Converter):
    """A converter whose webhook answers what a test says."""

    def __init__(self, make):
        super().__init__("t", HOOK, refuse)
        self.make = make
        self.request = None

    async def _post(self, webhook, request):
        self.request = request
        return self.make(request["request"])


def success(*objects):
    def make(request):
        result = {"status": "Success"}
        response = {"uid": request["uid"], "result": result, "convertedObjects": list(objects)}
        return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response}

    return make


def answer(**changes):
    def make(request):
        return {**success({**OLD, "apiVersion": "a.b/v2"})(request), **changes}

    return make


async def test_without_a_webhook_only_the_version_changes():
    (found,) = await Converter("t", None, refuse).convert([OLD], "a.b/v2")
    assert found == {**OLD, "apiVersion": "a.b/v2"}
    assert OLD["apiVersion"] == "a.b/v1"


async def test_a_webhook_may_change_everything_but_most_metadata():
    metadata = {**OLD["metadata"], "labels": {"l": "2"}, "resourceVersion": "99"}
    converter = Answering(success({**OLD, "apiVersion": "a.b/v2", "spec": 2, "metadata": metadata}))
    same = {**OLD, "apiVersion": "a.b/v2", "spec": 7}
    first, second = await converter.convert([OLD, same], "a.b/v2")
    assert first["spec"] == 2
    assert first["metadata"] == {"name": "x", "uid": "u", "labels": {"l": "2"}}
    assert second is same
    assert [each["spec"] for each in converter.request["request"]["objects"]] == [1]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (success(), "conversion webhook for a.b/v1, Kind=Foo returned 0 objects, expected 1"),
        (success(OLD), "invalid groupVersion (expected a.b/v2, received a.b/v1)"),
        (
            success({**OLD, "apiVersion": "a.b/v2", "kind": "Bar"}),
            "invalid kind (expected Foo, received Bar)",
        ),
        (
            success({**OLD, "apiVersion": "a.b/v2", "metadata": {"name": "y", "uid": "u"}}),
            "must have the same name",
        ),
        (success({"apiVersion": "a.b/v2", "kind": "Foo"}), "missing metadata in converted object"),
        (success("x"), "is no object"),
        (answer(kind="X"), "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview"),
        (answer(response=None), "failed: no response provided"),
        (answer(response={"uid": "z"}), "expected response.uid="),
        (lambda request: [], "failed: the answer is no object"),
        (
            lambda request: answer(
                response={"uid": request["uid"], "result": {"status": "Failed", "message": "not today"}}
            )(request),
            "conversion webhook for a.b/v1, Kind=Foo failed: not today",
        ),
    ],
)
async def test_answers_that_make_no_sense_are_told(make, told):
    with pytest.raises(StatusError, match="conversion webhook") as caught:
        await Answering(make).convert([OLD], "a.b/v2")
    assert caught.value.code == 500
    assert told in caught.value.message


async def test_no_webhook_is_called_by_default():
    with pytest.raises(StatusError, match=r"does not allow it to call hook\.example"):
        await Converter("t", HOOK, refuse).convert([OLD], "a.b/v2")


@pytest.mark.parametrize(
    ("addresses", "allowed"),
    [
        (["10.1.2.3"], True),
        (["10.1.2.3", "127.0.0.1"], False),
        (["169.254.169.254"], False),
        (["::1"], False),
        ([], False),
    ],
)
async def test_every_resolved_address_must_be_allowed(addresses, allowed):
    async def resolve(host):
        return addresses

    reach = allow(["10.0.0.0/8"], resolve)
    target = Target("t", "hook.example", "", 443, "/")
    if allowed:
        assert await reach(target) == ("10.1.2.3", 443)
    else:
        with pytest.raises(Refused):
            await reach(target)


def test_a_service_is_named_as_its_certificate_must_be():
    hook = Webhook("x", {"service": {"namespace": "ns", "name": "svc", "path": "/c", "port": 8443}}, ("v1",))
    target, url, name = hook.target("t")
    assert (target.service, target.port, url, name) == (
        "ns/svc",
        8443,
        "https://svc.ns.svc:8443/c",
        "svc.ns.svc",
    )


async def test_connections_go_to_the_address_that_was_checked():
    (found,) = await convert._Pinned("10.1.2.3", 443).resolve("evil.example", 1)
    assert (found["host"], found["port"]) == ("10.1.2.3", 443)
