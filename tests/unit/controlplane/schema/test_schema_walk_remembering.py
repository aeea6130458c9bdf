"""What was walked lately is passed at once; the result is the same, and nobody's object is another's."""

import copy

from vcsync.controlplane.schema import builtin, walk

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


def test_walking_again_gives_the_same():
    once = walk.normalize(POD, schema())
    again = walk.normalize(copy.deepcopy(once), schema())
    assert walk.fingerprint(again) == walk.fingerprint(once)
    assert walk.fingerprint(walk.normalize(POD, schema())) == walk.fingerprint(once)


def test_another_order_is_put_right_though_the_right_one_is_known():
    once = walk.normalize(POD, schema())
    mixed = {**once, "spec": dict(reversed(once["spec"].items()))}
    assert walk.fingerprint(walk.normalize(mixed, schema())) == walk.fingerprint(once)


def test_what_is_changed_afterwards_is_changed_nowhere_else():
    once = walk.normalize(POD, schema())
    again = walk.normalize(once, schema())
    again["spec"]["nodeName"] = "other"
    assert once["spec"]["nodeName"] == "n"


def test_half_of_a_surrogate_pair_is_walked_each_time():
    odd = {**POD, "spec": {**POD["spec"], "nodeName": "\ud800"}}
    assert walk.fingerprint(odd) is None
    assert walk.normalize(odd, schema())["spec"]["nodeName"] == "\ud800"


def test_what_is_remembered_is_bounded():
    for number in range(3 * walk._MOST_REMEMBERED // walk._LONGEST_REMEMBERED):
        long = {
            **POD,
            "spec": {**POD["spec"], "nodeName": f"{number}" + "x" * (walk._LONGEST_REMEMBERED - 500)},
        }
        walk.normalize(long, schema())
        assert sum(len(told or b"") for _, told in list(walk._known)[-1:]) <= walk._LONGEST_REMEMBERED
    assert sum(len(told or b"") for _, told in walk._known) <= walk._MOST_REMEMBERED
