"""Numbers of requests come back as kube-apiserver writes them, and quantities as it rounds them."""

import json
import re
from typing import Any

import pytest
from served_definitions import DEFINITIONS, until

MERGE, JSON_PATCH, STRATEGIC, APPLY = (
    f"application/{each}"
    for each in ("merge-patch+json", "json-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")
)
YAML = "application/yaml"
GAUGES = "/apis/example.org/v1/namespaces/default/gauges"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SPEC = (
    b'"spec":{"size":4.0,"most":3e2,"ratio":1.0,"free":{"n":7.0,"m":18446744073709551616,"l":[1E3,-0.0,0.5]}}'
)
WANTED = {
    "size": "4",
    "most": "300",
    "ratio": "1",
    "n": "7",
    "m": "18446744073709552000",
    "l": "[1000,0,0.5]",
}


def gauge(spec: bytes = SPEC) -> bytes:
    return b'{"apiVersion":"example.org/v1","kind":"Gauge","metadata":{"name":"one"},%b}' % spec


def written(raw: bytes) -> dict[str, str]:
    """Return the texts of the numbers of a gauge."""
    found = re.findall(rb'"(size|most|ratio|n|m|l)":(\[[^\]]*\]|[-+0-9.eE]+)', raw)
    return {name.decode(): text.decode() for name, text in found}


def options(form: str) -> str:
    return "fieldManager=me&force=true" if form == APPLY else "fieldManager=me"


@pytest.fixture
async def gauges(api: Any) -> str:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec = {
        "size": {"type": "integer", "format": "int32"},
        "most": {"type": "integer"},
        "ratio": {"type": "number"},
        "free": free,
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "gauges", "singular": "gauge", "kind": "Gauge", "listKind": "GaugeList"}
    body = {"group": "example.org", "scope": "Namespaced", "names": names, "versions": [version]}
    made = await api("POST", DEFINITIONS, {"metadata": {"name": "gauges.example.org"}, "spec": body})
    assert made.status == 201, made.body

    async def served() -> bool:
        return (await api("GET", GAUGES)).status == 200

    await until(served)
    return GAUGES


async def test_a_created_custom_object_has_numbers_as_go_writes_them(api, gauges):
    made = await api("POST", gauges, gauge())
    read, listed = await api("GET", f"{gauges}/one"), await api("GET", gauges)
    assert (made.status, read.status) == (201, 200)
    assert [written(each.raw) for each in (made, read, listed)] == [WANTED] * 3


@pytest.mark.parametrize(
    ("form", "body"),
    [
        ("application/json", gauge()),
        (YAML, gauge()),
        (MERGE, b"{%b}" % SPEC),
        (APPLY, gauge()),
        (
            APPLY,
            b"apiVersion: example.org/v1\nkind: Gauge\nmetadata: {name: one}\n" + SPEC.replace(b":", b": "),
        ),
        (JSON_PATCH, b'[{"op":"add","path":"/spec","value":%b}]' % SPEC.removeprefix(b'"spec":')),
    ],
)
async def test_every_write_of_a_custom_object_normalizes_numbers(api, gauges, form, body):
    made = await api("POST", gauges, gauge(b'"spec":{}'))
    method = "PUT" if form in ("application/json", YAML) else "PATCH"
    version = f'"resourceVersion":"{made["metadata.resourceVersion"]}","name"'.encode()
    sent = body.replace(b'"name"', version, 1) if method == "PUT" else body
    found = await api(method, f"{gauges}/one?{options(form)}", sent, Content_Type=form)
    assert found.status == 200, found.body
    assert written(found.raw) == WANTED


async def test_a_fraction_in_an_integer_is_refused(api, gauges):
    await api("POST", gauges, gauge())
    found = await api("PATCH", f"{gauges}/one", b'{"spec":{"size":5.5}}', Content_Type=MERGE)
    assert found.status == 422


async def test_a_number_that_is_no_float64_is_refused(api, gauges):
    found = await api("POST", gauges, gauge(b'"spec":{"free":{"n":1e400}}'))
    assert found.status == 400
    why = "json: cannot unmarshal number 1e400 into Go value of type float64"
    assert found.body["message"] == f'Gauge in version "v1" cannot be handled as a Gauge: {why}'


def deployment(replicas: bytes) -> bytes:
    pod = b'"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}'
    head = b'"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"}'
    return b'{%b,"spec":{"selector":{"matchLabels":{"a":"b"}},"replicas":%b,%b}}' % (head, replicas, pod)


@pytest.mark.parametrize(
    ("method", "form", "code"),
    [
        ("POST", "application/json", 400),
        ("POST", YAML, 201),
        ("PATCH", MERGE, 422),
        ("PATCH", JSON_PATCH, 422),
        ("PATCH", STRATEGIC, 200),
        ("PATCH", APPLY, 200),
    ],
)
@pytest.mark.parametrize("replicas", [b"3.0", b"3e0"])
async def test_a_whole_float_for_an_integer_of_a_built_in_kind(api, method, form, code, replicas):
    if method == "PATCH":
        made = await api("POST", DEPLOYMENTS, deployment(b"1"))
        assert made.status == 201, made.body
    body = deployment(replicas)
    if form == JSON_PATCH:
        body = b'[{"op":"replace","path":"/spec/replicas","value":%b}]' % replicas
    path = DEPLOYMENTS if method == "POST" else f"{DEPLOYMENTS}/d?{options(form)}"
    found = await api(method, path, body, Content_Type=form)
    assert found.status == code, found.body
    if code < 400:
        assert (found["spec.replicas"], found.raw.count(b'"replicas":3,')) == (3, 1)
    else:
        told = f"number {replicas.decode()} into Go struct field DeploymentSpec.spec.replicas of type int32"
        assert f"json: cannot unmarshal {told}" in found.body["message"]


@pytest.mark.parametrize(
    ("form", "number", "wanted"),
    [
        ("application/json", b"1e3", "1e3"),
        ("application/json", b"1E3", "1E3"),
        ("application/json", b"1e30", "1e30"),
        ("application/json", b"0.5", "500m"),
        ("application/json", b"1.5e-3", "2e-3"),
        (YAML, b"1e3", "1k"),
        (YAML, b"1.5e-3", "2m"),
        ("application/json", b'"0.0005"', "1m"),
        ("application/json", b'"1.0001"', "1001m"),
    ],
)
async def test_a_quantity_keeps_its_text_and_is_rounded_to_thousandths(api, form, number, wanted):
    body = b'{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},"spec":{"hard":{"requests.cpu":%b}}}'
    found = await api("POST", "/api/v1/namespaces/default/resourcequotas", body % number, Content_Type=form)
    assert found.status == 201, found.body
    assert found.body["spec"]["hard"]["requests.cpu"] == wanted


async def test_free_form_parts_of_built_in_kinds_have_numbers_as_go_writes_them(api):
    body = b'{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"r"},"revision":1,"data":{"n":2.0}}'
    path = "/apis/apps/v1/namespaces/default/controllerrevisions"
    made = await api("POST", path, body)
    assert (made.status, made.raw.count(b'"data":{"n":2}')) == (201, 1), made.raw
    found = await api(
        "PATCH", f"{path}/r", b'{"metadata":{"labels":{"a":"b"}},"revision":2}', Content_Type=MERGE
    )
    assert found.status == 200, found.body
    refused = await api("POST", path, body.replace(b"2.0", b"1e400").replace(b'"r"', b'"s"'))
    assert refused.status == 400, json.dumps(refused.body)
