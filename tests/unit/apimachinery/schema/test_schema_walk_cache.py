"""The cache of normalized values does not change results, and results share no outer dict."""

import copy

from vcsync.apimachinery.schema import builtin, walk

POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"image": "i", "name": "c"}], "nodeName": "n"},
    "status": {"phase": "Running"},
}


def schema():
    found = builtin.schema("", "v1", "Pod")
    assert found is not None
    return found


def test_walking_again_gives_the_same_result():
    once = walk.normalize(POD, schema())
    again = walk.normalize(copy.deepcopy(once), schema())
    assert walk.fingerprint(again) == walk.fingerprint(once)
    assert walk.fingerprint(walk.normalize(POD, schema())) == walk.fingerprint(once)


def test_fields_are_sorted_although_the_sorted_object_is_cached():
    once = walk.normalize(POD, schema())
    mixed = {**once, "spec": dict(reversed(once["spec"].items()))}
    assert walk.fingerprint(walk.normalize(mixed, schema())) == walk.fingerprint(once)


def test_changing_a_result_changes_no_other():
    once = walk.normalize(POD, schema())
    again = walk.normalize(once, schema())
    again["spec"]["nodeName"] = "other"
    assert once["spec"]["nodeName"] == "n"


def test_a_value_that_cannot_be_encoded_is_not_cached():
    odd = {**POD, "spec": {**POD["spec"], "nodeName": "\ud800"}}
    assert walk.fingerprint(odd) is None
    assert walk.normalize(odd, schema())["spec"]["nodeName"] == "\ud800"


def test_the_size_of_the_cache_is_limited():
    for number in range(3 * walk._MOST_CACHED // walk._LONGEST_CACHED):
        long = {
            **POD,
            "spec": {**POD["spec"], "nodeName": f"{number}" + "x" * (walk._LONGEST_CACHED - 500)},
        }
        walk.normalize(long, schema())
        assert sum(len(key or b"") for _, key in list(walk._known)[-1:]) <= walk._LONGEST_CACHED
    assert sum(len(key or b"") for _, key in walk._known) <= walk._MOST_CACHED
