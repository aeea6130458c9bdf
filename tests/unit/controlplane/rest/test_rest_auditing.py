"""What requests tell the audit log on their way: whose log, which id, what was sent and answered."""

import json

import pytest
import yaml

from vcsync.controlplane.audit.auditor import OTHERS, Auditor
from vcsync.controlplane.audit.events import line
from vcsync.controlplane.audit.policy import read
from vcsync.controlplane.audit.trail import SILENT
from vcsync.controlplane.behaviour import User
from vcsync.controlplane.errors import StatusError, unauthorized
from vcsync.controlplane.identity.caller import Caller
from vcsync.controlplane.rest import auditing
from vcsync.controlplane.rest.requestinfo import RequestInfo, request_info

MAPS = "/api/v1/namespaces/default/configmaps"


class Log:
    def __init__(self):
        self.moments = []

    def put(self, moment):
        self.moments.append(moment)

    def events(self):
        return [json.loads(line(each, 2**20)) for each in self.moments]


@pytest.fixture
def log(api):
    """The log of an API that tells everything."""
    found = Log()
    rules = [{"level": "RequestResponse", "omitStages": ["RequestReceived"]}]
    policy = yaml.safe_dump({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules})
    api.way.auditor = Auditor(read(policy.encode()), found, lambda: 0)
    return found


async def told(api, log, *asked, **headers):
    """Ask, and return the event that the answer makes once it is out."""
    seen = []
    begin = auditing.begin

    def watched(auditor, incoming, *rest):
        begin(auditor, incoming, *rest)
        seen.append(incoming)

    auditing.begin = watched
    try:
        await api(*asked, **headers)
    finally:
        auditing.begin = begin
    api.way.auditor.complete(seen[-1].audit)
    return log.events()[-1]


async def test_what_was_sent_has_its_kinds_defaults_and_what_was_answered_is_whole(api, log):
    event = await told(api, log, "POST", MAPS, {"metadata": {"name": "m"}, "data": {"a": "b"}})
    assert event["objectRef"]["name"] == "m"
    assert event["requestObject"] == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "m"},
        "data": {"a": "b"},
    }
    assert event["responseObject"]["metadata"]["name"] == "m"
    assert event["responseStatus"] == {"metadata": {}, "code": 201}


async def test_a_patch_is_told_as_it_came(api, log):
    await api("POST", MAPS, {"metadata": {"name": "m"}})
    event = await told(
        api, log, "PATCH", f"{MAPS}/m", {"data": {"a": None}}, content_type="application/merge-patch+json"
    )
    assert event["requestObject"] == {"data": {"a": None}}


async def test_a_deletion_is_told_with_its_options_and_status(api, log):
    await api("POST", MAPS, {"metadata": {"name": "m"}})
    event = await told(api, log, "DELETE", f"{MAPS}/m", {"kind": "DeleteOptions", "apiVersion": "v1"})
    assert event["requestObject"]["kind"] == "DeleteOptions"
    assert event["responseStatus"]["status"] == "Success"
    assert event["responseStatus"]["details"]["name"] == "m"


async def test_a_refusal_is_told_with_its_status(api, log):
    event = await told(api, log, "GET", f"{MAPS}/none")
    assert event["responseStatus"]["reason"] == "NotFound"
    assert event["responseObject"] == {"kind": "Status", "apiVersion": "v1", **event["responseStatus"]}


async def test_what_cannot_be_given_in_the_wanted_form_has_no_more_than_a_code(api, log):
    event = await told(api, log, "GET", MAPS, accept="text/html")
    assert event["responseStatus"] == {"metadata": {}, "code": 406}
    assert "responseObject" not in event


async def test_deprecated_resources_are_told(api, log):
    event = await told(api, log, "GET", "/api/v1/namespaces/default/endpoints")
    assert event["annotations"]["k8s.io/deprecated"] == "true"


LOGS = [
    # caller's tenant, whether a system caller, tenant in the URL, log
    ("a", False, "a", "a"),
    ("a", False, None, "a"),
    ("a", False, "b", OTHERS),
    ("gone", False, "gone", OTHERS),
    ("nobody", False, "nobody", OTHERS),
    ("", False, None, OTHERS),
    ("system", True, "a", "a"),
    ("system", True, "all", "system"),
    ("system", True, "gone", "system"),
    ("system", True, None, "system"),
    (None, False, "a", OTHERS),
]


@pytest.mark.parametrize(("own", "system", "named", "expected"), LOGS)
def test_nobody_writes_into_another_tenants_log(own, system, named, expected):
    path = f"/tenants/{named}{MAPS}" if named else MAPS
    info = request_info("GET", path, {})
    caller = None if own is None else Caller(User("jane"), own, system=system)
    assert auditing._log_of(info, caller, lambda tenant: tenant in ("a", "b")) == expected


@pytest.mark.parametrize("given", ["mine", "i" * 500])
def test_a_clients_audit_id_is_taken_over(given):
    assert auditing.audit_id({"Audit-Id": given}) == given


@pytest.mark.parametrize("given", ["", "bad\nid", "b\udcffd"])
def test_others_get_a_new_one(given):
    assert len(auditing.audit_id({"Audit-Id": given})) == 36


def test_an_audit_id_is_bounded():
    assert auditing.audit_id({"Audit-Id": "i" * 9999}) == "i" * auditing.MAX_ID


@pytest.mark.parametrize(
    ("verb", "sub", "lasts"), [("watch", "", True), ("get", "log", True), ("get", "status", False)]
)
def test_of_answers_that_last_the_beginning_is_told(verb, sub, lasts):
    assert auditing.lasting(RequestInfo(verb, "", subresource=sub)) is lasts


async def test_refused_credentials_begin_a_trail_of_nobody(api, log, monkeypatch):
    async def refuse(*_):
        raise unauthorized()

    monkeypatch.setattr(api.way._identity, "authenticate", refuse, raising=False)
    event = await told(api, log, "GET", MAPS)
    assert (event["user"], event["stage"], event["responseStatus"]["code"]) == ({}, "ResponseStarted", 401)


async def test_an_api_without_a_log_gathers_nothing(api):
    assert api.way.auditor is None
    assert (await api("GET", MAPS)).status == 200
    error = StatusError(404, "NotFound", "no")
    auditing.failed(SILENT, error)
    assert SILENT.status is None
