"""The audit events of a request: stages and content."""

import json

import pytest
import yaml

from vcsync.apimachinery.strategy import User
from vcsync.apiserver.audit.auditor import MAX_ADDRESSES, OTHERS, Auditor, Origin, addresses
from vcsync.apiserver.audit.events import TRUNCATED, line, micro_time
from vcsync.apiserver.audit.policy import read
from vcsync.apiserver.request.audit_trail import CUT, SILENT, Body, Level
from vcsync.apiserver.request.caller import Attributes

BEGAN = 1_790_000_000_123_456_789
JANE = User("jane", "u1", ("dev",), {"scopes": ("a", "b")})
MAPS = Attributes("create", group="", version="v1", resource="configmaps", namespace="n")
SECRETS = Attributes("create", group="", version="v1", resource="secrets", namespace="n")


class Log:
    """Takes events, and tells them as a reader of the file sees them."""

    def __init__(self):
        self.moments = []

    def put(self, moment):
        self.moments.append(moment)

    def events(self, limit=2**20):
        return [json.loads(line(moment, limit)) for moment in self.moments]


class Clock:
    def __init__(self):
        self.now = BEGAN - 1_000_000

    def __call__(self):
        self.now += 1_000_000
        return self.now


@pytest.fixture
def log():
    return Log()


@pytest.fixture
def auditor(log):
    def made(level="RequestResponse", **rule):
        head = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy"}
        policy = read(yaml.safe_dump({**head, "rules": [{"level": level, **rule}]}).encode())
        return Auditor(policy, log, Clock())

    return made


def origin(**more):
    return lambda: Origin("id-1", "/api/v1/namespaces/n/configmaps", **more)


def test_a_request_is_recorded_when_received_and_when_complete(auditor, log):
    found = auditor("Metadata")
    trail = found.begin("acme", JANE, MAPS, origin(agent="kubectl", remote="10.0.0.9"))
    trail.annotate("a/b", "c")
    trail.sent({"name": "m", "uid": "u"}, None)
    trail.answered(201, [b"{}"], "application/json")
    found.complete(trail)
    received, complete = log.events()
    common = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": "id-1",
        "stage": "RequestReceived",
        "requestURI": "/api/v1/namespaces/n/configmaps",
        "verb": "create",
        "user": {"username": "jane", "uid": "u1", "groups": ["dev"], "extra": {"scopes": ["a", "b"]}},
        "sourceIPs": ["10.0.0.9"],
        "userAgent": "kubectl",
        "objectRef": {"resource": "configmaps", "namespace": "n", "apiVersion": "v1"},
        "requestReceivedTimestamp": "2026-09-21T14:13:20.123456Z",
        "stageTimestamp": "2026-09-21T14:13:20.123456Z",
    }
    assert list(received) == list(common)
    assert received == common
    assert complete == {
        **common,
        "stage": "ResponseComplete",
        "objectRef": {
            "resource": "configmaps",
            "namespace": "n",
            "name": "m",
            "uid": "u",
            "apiVersion": "v1",
        },
        "responseStatus": {"metadata": {}, "code": 201},
        "stageTimestamp": "2026-09-21T14:13:20.124456Z",
        "annotations": {"a/b": "c"},
    }


def test_bodies_are_recorded_from_their_levels_on(auditor, log):
    for level in ("Metadata", "Request", "RequestResponse"):
        found = auditor(level, omitStages=["RequestReceived"])
        trail = found.begin("acme", JANE, MAPS, origin())
        trail.sent({}, b'{"kind":"ConfigMap"}' if trail.level >= Level.REQUEST else None)
        trail.answered(201, [b'{"kind":', b'"ConfigMap","data":{}}'], "application/json")
        found.complete(trail)
    metadata, request, both = log.events()
    assert not {"requestObject", "responseObject"} & metadata.keys()
    assert request["requestObject"] == {"kind": "ConfigMap"}
    assert "responseObject" not in request
    assert both["responseObject"] == {"kind": "ConfigMap", "data": {}}


def test_nothing_is_recorded_at_level_none(auditor, log):
    assert auditor("None").begin("acme", JANE, MAPS, origin()) is SILENT
    assert log.events() == []


def test_refused_credentials_are_recorded_once_and_without_a_user(auditor, log):
    found = auditor()
    trail = found.begin(OTHERS, None, MAPS, origin())
    trail.status = {
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }
    found.complete(trail)
    (event,) = log.events()
    assert (event["stage"], event["user"], event["responseStatus"]["code"]) == ("ResponseStarted", {}, 401)


def test_a_watch_is_also_recorded_when_its_response_starts(auditor, log):
    found = auditor("Metadata")
    trail = found.begin("acme", JANE, MAPS, origin())
    trail.status = {"metadata": {}, "code": 200}
    found.started(trail)
    trail.annotate("late", "yes")
    found.complete(trail)
    events = log.events()
    assert [each["stage"] for each in events] == ["RequestReceived", "ResponseStarted", "ResponseComplete"]
    assert "annotations" not in events[1]
    assert events[2]["annotations"] == {"late": "yes"}


def test_closed_connections_and_defects_are_recorded(auditor, log):
    found = auditor("RequestResponse", omitStages=["RequestReceived"])
    found.complete(found.begin("acme", JANE, MAPS, origin()))
    found.panicked(found.begin("acme", JANE, MAPS, origin()), "unexpected error, id 7")
    gone, defect = log.events()
    assert gone["responseStatus"]["message"] == "Connection closed early"
    assert (defect["stage"], defect["responseStatus"]["message"]) == (
        "Panic",
        "APIServer panic'd: unexpected error, id 7",
    )


def test_a_request_ends_once(auditor, log):
    found = auditor("Metadata", omitStages=["RequestReceived"])
    trail = found.begin("acme", JANE, MAPS, origin())
    found.complete(trail)
    found.panicked(trail, "while it was sent")
    found.complete(trail)
    assert [each["stage"] for each in log.events()] == ["ResponseComplete"]


def test_the_impersonated_user_is_recorded(auditor, log):
    found = auditor("Metadata", omitStages=["RequestReceived"])
    trail = found.begin("acme", JANE, MAPS, origin())
    trail.impersonated, trail.constraint = User("joe", groups=("ops",)), "impersonate:user-info"
    found.complete(trail)
    (event,) = log.events()
    assert event["impersonatedUser"] == {"username": "joe", "groups": ["ops"]}
    assert event["authenticationMetadata"] == {"impersonationConstraint": "impersonate:user-info"}
    assert event["user"]["username"] == "jane"


@pytest.mark.parametrize(
    ("body", "recorded"),
    [
        (Body(b'[{"op":"add","path":"/data/k","value":"s"}]', "application/json-patch+json"),
         [{"op": "add", "path": "/data/k", "value": "REDACTED"}]),
        (Body(b"data: {k: s}\n", "application/apply-patch+yaml"), {"data": {"k": "REDACTED"}}),
        (Body(b"{broken", "application/json"), None),
        (Body(b"k8s\x00broken", "application/vnd.kubernetes.protobuf"), None),
        (Body(b"hello", "text/plain"), None),
    ],
)  # fmt: skip
def test_bodies_of_any_media_type_are_recorded_as_json_without_secrets(auditor, log, body, recorded):
    found = auditor("Request", omitStages=["RequestReceived"])
    trail = found.begin("acme", JANE, SECRETS, origin())
    trail.request = body
    found.complete(trail)
    (event,) = log.events()
    assert event.get("requestObject") == recorded


def test_messages_about_secrets_do_not_repeat_them(auditor, log):
    found = auditor("RequestResponse", omitStages=["RequestReceived"])
    trail = found.begin("acme", JANE, SECRETS, origin())
    trail.status = {
        "metadata": {},
        "status": "Failure",
        "message": "bad: hunter2",
        "reason": "BadRequest",
        "code": 400,
    }
    trail.answered(400, [b'{"kind":"Status","message":"bad: hunter2"}'], "application/json")
    trail.annotate("policy.example/why", "hunter2")
    found.complete(trail)
    assert b"hunter2" not in line(log.moments[0], 2**20)
    assert log.events()[0]["responseObject"]["kind"] == "Status"


def test_managed_fields_are_omitted_if_the_policy_says_so(auditor, log):
    found = auditor("RequestResponse", omitStages=["RequestReceived"], omitManagedFields=True)
    trail = found.begin("acme", JANE, MAPS, origin())
    trail.answered(
        200, [b'{"kind":"ConfigMap","metadata":{"name":"m","managedFields":[{}]}}'], "application/json"
    )
    found.complete(trail)
    assert log.events()[0]["responseObject"]["metadata"] == {"name": "m"}


def test_an_event_that_is_too_large_loses_its_bodies(auditor, log):
    found = auditor("RequestResponse", omitStages=["RequestReceived"])
    trail = found.begin("acme", JANE, MAPS, origin())
    trail.answered(200, [json.dumps({"data": "x" * 9000}).encode()], "application/json")
    found.complete(trail)
    (event,) = log.events(limit=2000)
    assert "responseObject" not in event
    assert event["annotations"] == {TRUNCATED: "true"}
    assert len(line(log.moments[0], 2000)) < 2000


def test_the_size_of_values_that_clients_choose_is_limited(auditor, log):
    user = User("j" * 9000, groups=tuple(map(str, range(999))), extra={"k": ("v" * 9000,) * 999})
    forwarded = ",".join(["10.1.1.1"] * 99)

    def long():
        return Origin("id", "/" + "x" * 99_999, agent="a" * 9000, forwarded=forwarded, remote="10.0.0.1")

    found = auditor("Metadata")
    found.begin("acme", user, MAPS, long)
    assert len(line(log.moments[0], 2**20)) < 400_000
    (event,) = log.events()
    assert event["userAgent"] == "a" * 1024 + CUT
    assert len(event["sourceIPs"]) == MAX_ADDRESSES + 1


def test_text_that_is_not_utf8_is_recorded_with_replacements(auditor, log):
    auditor("Metadata").begin("acme", JANE, MAPS, origin(agent="bad\udcff"))
    assert log.events()[0]["userAgent"] == "bad?"


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (Origin("", "", remote="10.0.0.1"), ("10.0.0.1",)),
        (
            Origin("", "", forwarded="1.1.1.1, bad, 2.2.2.2", remote="10.0.0.1"),
            ("1.1.1.1", "2.2.2.2", "10.0.0.1"),
        ),
        (Origin("", "", forwarded="1.1.1.1", real="3.3.3.3", remote="3.3.3.3"), ("1.1.1.1", "3.3.3.3")),
        (Origin("", "", real="::1", remote="::1"), ("::1",)),
        (Origin("", ""), ()),
    ],
)
def test_the_address_of_the_connection_is_last(origin, expected):
    assert addresses(origin) == expected


def test_times_have_microseconds():
    assert micro_time(0) == "1970-01-01T00:00:00.000000Z"
