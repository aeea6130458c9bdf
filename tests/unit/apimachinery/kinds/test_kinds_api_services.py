"""What an APIService may say, in the words of the real server."""

import pytest

from vcsync.apimachinery.kinds.apiregistration.api_service import KIND as RULES

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
