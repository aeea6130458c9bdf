"""Conversion webhooks are called only where the operator lets them, and believed only as far as the API does."""

import json

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.apiextensions import conversion as convert
from vcsync.apiserver.apiextensions.conversion import Converter, Webhook, refuse

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
        super().__init__("t", HOOK, self._answer)
        self.make = make
        self.calls = []

    @property
    def request(self):
        return json.loads(self.calls[-1].body())

    async def _answer(self, call):
        self.calls.append(call)
        return json.dumps(self.make(self.request["request"])).encode()


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
        (success({"apiVersion": "a.b/v2", "kind": "Foo"}), "must have the same name: x != "),
        (success("x"), "is no object"),
        (
            success({**OLD, "apiVersion": "a.b/v2", "metadata": {**OLD["metadata"], "labels": {"l": 1}}}),
            "returned invalid metadata: metadata.labels[l] must be a string, but is int64 in converted object",
        ),
        (
            success({**OLD, "apiVersion": "a.b/v2", "metadata": {**OLD["metadata"], "labels": {"l": "?"}}}),
            'invalid metadata: metadata.labels: Invalid value: "?"',
        ),
        (
            success({**OLD, "apiVersion": "a.b/v2", "metadata": {**OLD["metadata"], "annotations": []}}),
            "invalid metadata.annotations of type []interface {} in converted object",
        ),
        (answer(kind="X"), "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview"),
        (answer(response=None), "failed: no response provided"),
        (answer(response={"uid": "z"}), "expected response.uid="),
        (lambda request: [], "failed: couldn't get version/kind; json parse error"),
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
    with pytest.raises(StatusError) as caught:
        await Converter("t", HOOK, refuse).convert([OLD], "a.b/v2")
    assert caught.value.message == (
        'conversion webhook for a.b/v1, Kind=Foo failed: Post "https://hook.example/convert?timeout=30s": '
        "the operator of this server does not allow it to be called"
    )


async def test_long_lists_are_converted_in_several_calls(monkeypatch):
    monkeypatch.setattr(convert, "BATCH_OBJECTS", 2)

    def make(request):
        return success(*({**each, "apiVersion": "a.b/v2"} for each in request["objects"]))(request)

    converter = Answering(make)
    objects = [{**OLD, "spec": at} for at in range(5)]
    found = await converter.convert(objects, "a.b/v2")
    assert [each["spec"] for each in found] == [0, 1, 2, 3, 4]
    assert len(converter.calls) == 3


@pytest.mark.parametrize(
    ("reviews", "sent"), [(("v1beta1", "v1"), "v1beta1"), (("v2", "v1"), "v1"), (("v2",), None)]
)
async def test_the_first_known_review_version_is_spoken(reviews, sent):
    converter = Answering(success({**OLD, "apiVersion": "a.b/v2"}))
    converter._webhook = Webhook("foos.a.b", HOOK.client, reviews)
    if sent is None:
        with pytest.raises(StatusError, match="no supported conversion review versions"):
            await converter.convert([OLD], "a.b/v2")
    else:
        await converter.convert([OLD], "a.b/v2")
        assert converter.request["apiVersion"] == f"apiextensions.k8s.io/{sent}"


async def test_all_calls_for_a_list_share_one_deadline(monkeypatch):
    monkeypatch.setattr(convert, "REQUEST_SECONDS", 0.0)
    converter = Answering(success({**OLD, "apiVersion": "a.b/v2"}))
    await converter.convert([OLD], "a.b/v2")
    assert converter.calls[0].seconds == 0.0


async def test_a_converted_object_is_bounded(monkeypatch):
    monkeypatch.setattr(convert, "LARGEST_OBJECT", 10)
    with pytest.raises(StatusError, match="larger than 10 bytes"):
        await Answering(success({**OLD, "apiVersion": "a.b/v2"})).convert([OLD], "a.b/v2")
