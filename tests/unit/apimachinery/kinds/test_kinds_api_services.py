"""Validation of APIServices, with upstream's messages."""

from dataclasses import replace

import pytest

from vcsync.apimachinery.kinds.apiregistration.api_service import KIND as RULES
from vcsync.apimachinery.kinds.apiregistration.api_service import NOT_FORWARDED
from vcsync.apimachinery.strategy import Context, User

SPEC = {"group": "a.io", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
SERVICE = {"namespace": "a", "name": "b"}


def _refused(spec, name="v1.a.io"):
    found = {"metadata": {"name": name}, "spec": {**SPEC, **spec}}
    RULES.default(found)
    return [(each.field, each.body) for each in RULES.validate(found)]


def test_a_service_is_reached_at_443_unless_it_says_where():
    found = {"spec": {"service": dict(SERVICE)}}
    RULES.default(found)
    assert found["spec"]["service"]["port"] == 443


@pytest.mark.parametrize("spec", [{}, {"service": SERVICE}, {"service": SERVICE, "caBundle": "aGk="}])
def test_good_ones_pass(spec):
    assert not _refused(spec)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"version": "v2"}, "metadata.name"),
        ({"groupPriorityMinimum": 20001}, "spec.groupPriorityMinimum"),
        ({"versionPriority": 0}, "spec.versionPriority"),
        ({"caBundle": "aGk="}, "spec.caBundle"),
        ({"insecureSkipTLSVerify": True}, "spec.insecureSkipTLSVerify"),
        ({"service": {"name": "b"}}, "spec.service.namespace"),
        ({"service": {**SERVICE, "port": 70000}}, "spec.service.port"),
        (
            {"service": SERVICE, "insecureSkipTLSVerify": True, "caBundle": "aGk="},
            "spec.insecureSkipTLSVerify",
        ),
    ],
)
def test_bad_ones_are_refused_by_field(spec, field):
    assert [each for each, _ in _refused(spec)] == [field]


def test_a_bundle_is_told_by_its_size():
    assert _refused({"caBundle": "aGk="})[0][1].startswith('Invalid value: "2 bytes"')


CONTEXT = Context("acme", User("me"), "2026-01-01T00:00:00Z")


def _state(found):
    (condition,) = found["status"]["conditions"]
    return condition["type"], condition["status"], condition["reason"]


def test_the_state_of_a_service_that_may_be_called_is_unknown_until_it_is_checked():
    behind = {"metadata": {"name": "v1.a.io"}, "spec": {**SPEC, "service": dict(SERVICE)}}
    RULES.prepare_create(behind, replace(CONTEXT, forwards=True))
    assert behind["status"] == {}
    assert RULES.warnings(behind, None) == []
    own = {**behind, "spec": SPEC, "status": {}}
    RULES.prepare_create(own, replace(CONTEXT, forwards=True))
    assert _state(own) == ("Available", "True", "Local")


def test_a_service_is_reported_as_not_forwarded_until_the_server_serves_the_group_itself():
    behind = {"metadata": {"name": "v1.a.io"}, "spec": {**SPEC, "service": dict(SERVICE)}}
    RULES.prepare_create(behind, CONTEXT)
    assert _state(behind) == ("Available", "False", "NotForwarded")
    own = {**behind, "spec": SPEC}
    RULES.prepare_update(own, behind, CONTEXT)
    assert _state(own) == ("Available", "True", "Local")
    behind["status"] = own["status"]
    RULES.prepare_update(behind, own, CONTEXT)
    assert _state(behind) == ("Available", "False", "NotForwarded")


def test_an_update_that_leaves_the_service_keeps_the_status():
    behind = {
        "metadata": {"name": "v1.a.io"},
        "spec": {**SPEC, "service": SERVICE},
        "status": {"conditions": []},
    }
    RULES.prepare_update(behind, {**behind, "spec": {**SPEC, "service": {**SERVICE, "port": 8443}}}, CONTEXT)
    assert behind["status"] == {"conditions": []}


def test_only_the_write_that_names_a_service_is_warned_of():
    own = {"metadata": {"name": "v1.a.io"}, "spec": SPEC}
    behind = {"metadata": {"name": "v1.a.io"}, "spec": {**SPEC, "service": SERVICE}}
    RULES.prepare_create(behind, CONTEXT)
    text = f"v1.a.io is not available: {NOT_FORWARDED}"
    assert RULES.warnings(behind, None) == RULES.warnings(behind, own) == [text]
    assert RULES.warnings(behind, behind) == RULES.warnings(own, None) == RULES.warnings(own, behind) == []
