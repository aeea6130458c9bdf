"""Audit events of requests: log, audit id, and the recorded bodies."""

import json

import pytest
import yaml

from vcsync.apimachinery.errors import StatusError, unauthorized
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.audit import request_log as auditing
from vcsync.apiserver.audit.auditor import OTHERS, Auditor
from vcsync.apiserver.audit.events import line
from vcsync.apiserver.audit.policy import read
from vcsync.apiserver.request.audit_trail import SILENT
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.request.request_info import RequestInfo, request_info

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
    api.chain.auditor = Auditor(read(policy.encode()), found, lambda: 0)
    return found


async def audited(api, log, *asked, **headers):
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
    api.chain.auditor.complete(seen[-1].audit)
    return log.events()[-1]


async def test_the_request_object_has_defaults_and_the_response_object_is_complete(api, log):
    event = await audited(api, log, "POST", MAPS, {"metadata": {"name": "m"}, "data": {"a": "b"}})
    assert event["objectRef"]["name"] == "m"
    assert event["requestObject"] == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "m"},
        "data": {"a": "b"},
    }
    assert event["responseObject"]["metadata"]["name"] == "m"
    assert event["responseStatus"] == {"metadata": {}, "code": 201}


async def test_a_patch_is_recorded_as_it_was_sent(api, log):
    await api("POST", MAPS, {"metadata": {"name": "m"}})
    event = await audited(
        api, log, "PATCH", f"{MAPS}/m", {"data": {"a": None}}, content_type="application/merge-patch+json"
    )
    assert event["requestObject"] == {"data": {"a": None}}


async def test_a_deletion_is_recorded_with_its_options_and_status(api, log):
    await api("POST", MAPS, {"metadata": {"name": "m"}})
    event = await audited(api, log, "DELETE", f"{MAPS}/m", {"kind": "DeleteOptions", "apiVersion": "v1"})
    assert event["requestObject"]["kind"] == "DeleteOptions"
    assert event["responseStatus"]["status"] == "Success"
    assert event["responseStatus"]["details"]["name"] == "m"


async def test_a_refusal_is_recorded_with_its_status(api, log):
    event = await audited(api, log, "GET", f"{MAPS}/none")
    assert event["responseStatus"]["reason"] == "NotFound"
    assert event["responseObject"] == {"kind": "Status", "apiVersion": "v1", **event["responseStatus"]}


async def test_an_unacceptable_media_type_is_recorded_with_its_code_only(api, log):
    event = await audited(api, log, "GET", MAPS, accept="text/html")
    assert event["responseStatus"] == {"metadata": {}, "code": 406}
    assert "responseObject" not in event


async def test_deprecated_resources_are_annotated(api, log):
    event = await audited(api, log, "GET", "/api/v1/namespaces/default/endpoints")
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
def test_callers_do_not_write_into_the_log_of_another_tenant(own, system, named, expected):
    path = f"/tenants/{named}{MAPS}" if named else MAPS
    info = request_info("GET", path, {})
    caller = None if own is None else Caller(User("jane"), own, system=system)
    assert auditing._log_of(info, caller, lambda tenant: tenant in ("a", "b")) == expected


@pytest.mark.parametrize("given", ["mine", "i" * 500])
def test_the_audit_id_of_a_client_is_used(given):
    assert auditing.audit_id({"Audit-Id": given}) == given


@pytest.mark.parametrize("given", ["", "bad\nid", "b\udcffd"])
def test_invalid_audit_ids_are_replaced(given):
    assert len(auditing.audit_id({"Audit-Id": given})) == 36


def test_the_length_of_an_audit_id_is_limited():
    assert auditing.audit_id({"Audit-Id": "i" * 9999}) == "i" * auditing.MAX_ID


@pytest.mark.parametrize(
    ("verb", "sub", "long_running"), [("watch", "", True), ("get", "log", True), ("get", "status", False)]
)
def test_watches_and_streams_are_long_running(verb, sub, long_running):
    assert auditing.is_long_running(RequestInfo(verb, "", subresource=sub)) is long_running


async def test_refused_credentials_begin_a_trail_without_a_user(api, log, monkeypatch):
    async def refuse(*_):
        raise unauthorized()

    monkeypatch.setattr(api.chain._identity, "authenticate", refuse, raising=False)
    event = await audited(api, log, "GET", MAPS)
    assert (event["user"], event["stage"], event["responseStatus"]["code"]) == ({}, "ResponseStarted", 401)


async def test_nothing_is_recorded_without_an_audit_log(api):
    assert api.chain.auditor is None
    assert (await api("GET", MAPS)).status == 200
    error = StatusError(404, "NotFound", "no")
    auditing.failed(SILENT, error)
    assert SILENT.status is None
