"""Lists over embedded and external control planes, one of which says what a test wants."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
from all_tenants_kit import PATH, Maps, Object, listed, names, readable
from door_kit import ApiServer, Door

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


@pytest.fixture
async def maps(door: Door, upstream: ApiServer) -> Maps:
    """The ConfigMaps a and b of umbrella, and c of acme."""
    found = Maps()
    found.put("a")
    found.put("b")
    upstream.answer = found.answer
    await readable(door, "umbrella", upstream)
    for kind, name in (("namespaces", "shop"), ("namespaces/shop/configmaps", "c")):
        body = msgspec.json.encode({"metadata": {"name": name}})
        status, _, _ = await door.request(
            f"POST /tenants/acme/api/v1/{kind}", [("Content-Type", "application/json")], body, "boss-token"
        )
        assert status == 201
    return found


@pytest.fixture
async def other(door: Door, maps: Maps, tmp_path: Path) -> AsyncIterator[tuple[ApiServer, Maps]]:
    """The external control plane initech with the ConfigMap d."""
    server, found = ApiServer(), Maps()
    found.put("d")
    server.answer = found.answer
    (tmp_path / "other").mkdir()
    await server.start(tmp_path / "other")
    await readable(door, "initech", server)
    yield server, found
    await server.stop()


async def test_the_parts_come_one_after_another_and_are_read_as_the_reader(door: Door, maps: Maps) -> None:
    status, answer, _ = await listed(door, "labelSelector=%21absent")
    assert (status, answer["kind"], answer["apiVersion"]) == (200, "ConfigMapList", "v1")
    assert names(answer) == [("acme", "c"), ("umbrella", "a"), ("umbrella", "b")]
    assert maps.headers["impersonate-user"] == "vcsync:tenant-reader"
    assert maps.headers["impersonate-group"] == "vcsync:tenant-readers"
    assert maps.asked[0] == f"{PATH}?labelSelector=%21absent&limit=1"
    assert (
        maps.asked[1]
        == f"{PATH}?labelSelector=%21absent&resourceVersion=102&resourceVersionMatch=Exact&limit=200"
    )


async def test_without_asking_for_it_a_list_is_as_it_was(door: Door, maps: Maps) -> None:
    status, answer, head = await listed(door, tenant="all")
    assert (status, names(answer), maps.asked) == (200, [("acme", "c")], [])
    assert answer["metadata"]["resourceVersion"].isdigit()
    assert "warning" not in head


async def test_pages_are_of_one_state(door: Door, maps: Maps, other: tuple[ApiServer, Maps]) -> None:
    found, more = [], ""
    while True:
        status, answer, _ = await listed(door, f"limit=1{more}")
        assert status == 200
        found.append(names(answer))
        maps.delete("b") if "b" in maps.objects else maps.put("z")
        if "continue" not in answer["metadata"]:
            break
        more = f"&continue={answer['metadata']['continue']}"
    assert found == [[("acme", "c")], [("initech", "d")], [("umbrella", "a")], [("umbrella", "b")]]


async def test_an_exact_version_is_read_again(door: Door, maps: Maps) -> None:
    _, answer, _ = await listed(door)
    version = answer["metadata"]["resourceVersion"]
    maps.put("z")
    _, again, _ = await listed(door, f"resourceVersion={version}&resourceVersionMatch=Exact")
    assert (names(again), again["metadata"]["resourceVersion"]) == (names(answer), version)
    _, newer, _ = await listed(door, f"resourceVersion={version}&resourceVersionMatch=NotOlderThan")
    assert ("umbrella", "z") in names(newer)
    maps.forget()
    status, gone, _ = await listed(door, f"resourceVersion={version}&resourceVersionMatch=Exact")
    assert (status, gone["reason"]) == (410, "Expired")


@pytest.mark.parametrize(
    "query",
    ["continue=x", "continue=bm9uc2Vuc2U", "resourceVersion=x12", "resourceVersion=-1", "limit=x",
     "resourceVersion=5&resourceVersionMatch=Exact"],
)  # fmt: skip
async def test_bad_tokens_are_refused(door: Door, maps: Maps, query: str) -> None:
    status, answer, _ = await listed(door, query)
    assert (status, answer["reason"]) == (400, "BadRequest")


async def test_a_token_says_nothing_about_a_control_plane_that_is_another_by_now(
    door: Door, maps: Maps, other: tuple[ApiServer, Maps]
) -> None:
    _, answer, _ = await listed(door)
    exact = f"resourceVersion={answer['metadata']['resourceVersion']}&resourceVersionMatch=Exact"
    assert (await listed(door, exact))[0] == 200
    await readable(door, "umbrella", other[0])
    status, answer, _ = await listed(door, exact)
    assert (status, answer["reason"]) == (410, "Expired")


async def test_a_control_plane_without_the_resource_has_no_objects(door: Door, maps: Maps) -> None:
    maps.refuse = lambda _: 404
    status, answer, _ = await listed(door)
    assert (status, names(answer)) == (200, [("acme", "c")])


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (403, "does not let the gateway read configmaps; connect it again with --readable configmaps"),
        (401, "does not accept the gateway; its operator must renew its credential"),
        (500, "answers with the status 500"),
        (302, "answers with the status 302"),
    ],
)
async def test_a_refusal_is_told_with_the_tenant(door: Door, maps: Maps, code: int, said: str) -> None:
    maps.refuse = lambda _: code
    status, answer, _ = await listed(door)
    assert (status, answer["message"]) == (
        503,
        f'tenant "umbrella" {said}; use all+reachable to read the others',
    )
    status, answer, head = await listed(door, tenant="all+reachable")
    assert (status, names(answer)) == (200, [("acme", "c")])
    assert "1 external control plane left out: umbrella cannot be read now" in head["warning"]


async def test_a_server_that_is_silent_or_gone_is_told_in_time(
    door: Door, maps: Maps, upstream: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vcsync.gateway.all_tenants.listing.VERSION_SECONDS", 0.3)

    async def silent(*_: object) -> None:
        await asyncio.sleep(60)

    upstream.answer = silent
    status, answer, _ = await listed(door)
    assert (status, answer["message"].split(";")[0]) == (503, 'tenant "umbrella" does not answer in time')
    await upstream.stop()
    status, answer, _ = await listed(door)
    assert (status, answer["message"].split(";")[0]) == (503, 'tenant "umbrella" cannot be reached')
    assert (await listed(door, tenant="all+reachable"))[0] == 200


async def test_what_is_not_readable_is_left_out_and_named(
    door: Door, maps: Maps, upstream: ApiServer
) -> None:
    await readable(door, "umbrella", upstream, "pods", "deployments.apps")
    status, answer, head = await listed(door)
    assert (status, names(answer), maps.asked) == (200, [("acme", "c")], [])
    assert head["warning"] == (
        '299 - "1 external control plane left out: umbrella did not let vcsync read this when they were connected '
        '(--readable)"'
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnull",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b'HTTP/1.1 200 OK\r\nContent-Length: 35\r\n\r\n{"metadata":{"resourceVersion":"x"}}',
        b'HTTP/1.1 200 OK\r\nContent-Length: 35\r\n\r\n{"metadata":{"resourceVersion":"1"}}',
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{",
    ],
)
async def test_what_is_no_list_is_told_with_the_tenant(door: Door, maps: Maps, raw: bytes) -> None:
    maps.raw = raw
    status, answer, _ = await listed(door)
    assert (status, answer["reason"]) == (503, "ServiceUnavailable")
    assert 'tenant "umbrella"' in answer["message"]


async def test_a_tenant_cannot_say_whose_its_objects_are(door: Door, maps: Maps) -> None:
    maps.put("a", annotations={"tenancy.x-k8s.io/tenant": "acme", "own": "1"}, tenant="acme")
    maps.objects["a"] |= {"kind": "Secret", "apiVersion": "v2"}
    maps.put("b", annotations="none")
    _, answer, _ = await listed(door)
    found = {each["metadata"]["name"]: each for each in answer["items"]}
    assert found["a"]["metadata"]["annotations"] == {"tenancy.x-k8s.io/tenant": "umbrella", "own": "1"}
    assert (found["a"]["kind"], found["a"]["apiVersion"]) == ("ConfigMap", "v1")
    assert "tenant" not in found["a"]["metadata"]
    assert found["b"]["metadata"]["annotations"] == {"tenancy.x-k8s.io/tenant": "umbrella"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"data": "text"},
        {"data": {"k": 5}},
        {"immutable": "yes"},
        {"metadata": {"name": "w", "resourceVersion": "5", "labels": ["x"]}},
        {"metadata": {"name": "w", "resourceVersion": "5", "creationTimestamp": "yesterday"}},
        {"metadata": {"name": "w" * 1000, "resourceVersion": "5"}},
        {"metadata": {"resourceVersion": "5"}},
        {"metadata": None},
    ],
)
async def test_an_object_that_no_client_could_decode_is_told_with_the_tenant(
    door: Door, maps: Maps, wrong: Object
) -> None:
    maps.objects["w"] = {"metadata": {"name": "w", "resourceVersion": "5"}, **wrong}
    status, answer, _ = await listed(door)
    assert (status, answer["message"].startswith('tenant "umbrella" sends what it should not')) == (503, True)


async def test_fields_of_a_newer_version_pass(door: Door, maps: Maps) -> None:
    maps.objects["a"] |= {"later": {"x": [1]}, "data": {"k": "v"}}
    status, answer, _ = await listed(door)
    assert (status, answer["items"][1]["later"]) == (200, {"x": [1]})


async def test_large_objects_come_in_smaller_pages(
    door: Door, maps: Maps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vcsync.gateway.all_tenants.sources.PAGE_BYTES", 20_000)
    for number in range(40):
        maps.put(f"m-{number:02}", annotations={"large": "x" * 2000})
    status, answer, _ = await listed(door)
    assert (status, len(answer["items"])) == (200, 43)
    maps.put("m-99", annotations={"large": "x" * 30_000})
    status, answer, _ = await listed(door)
    assert (status, answer["message"].split(";")[0]) == (
        503,
        'tenant "umbrella" has an object of more than 20000 bytes',
    )
    monkeypatch.setattr("vcsync.gateway.all_tenants.handler.WHOLE_BYTES", 1000)
    _, _, body = await door.request(f"GET /tenants/all+external{PATH}", token="operator-token")
    with pytest.raises(msgspec.DecodeError):  # the answer breaks off
        msgspec.json.decode(body)


@pytest.mark.parametrize(
    ("items", "tokens", "reason"),
    [
        (1, itertools.repeat("same"), "sends the same page again and again"),
        (1, itertools.count(), "does not end its list within 0.01 seconds"),
        (0, itertools.count(), "sends an empty page that is not the last"),
    ],
    ids=["one token", "full pages", "empty pages"],
)
async def test_a_list_without_end_is_refused(
    door: Door,
    maps: Maps,
    items: int,
    tokens: Iterator[object],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "seconds" in reason:  # the other reasons are found after few pages, however slow the machine is
        monkeypatch.setattr("vcsync.gateway.all_tenants.listing.PAGES_SECONDS", 0.01)
    maps.more = lambda: str(next(tokens))
    if not items:
        maps.delete("a")
        maps.delete("b")
    status, answer, _ = await listed(door)
    assert (status, answer["message"].split(";")[0]) == (503, f'tenant "umbrella" {reason}')


async def test_only_json_is_available(door: Door, maps: Maps) -> None:
    headers = [("Accept", "application/yaml")]
    status, _, body = await door.request(f"GET /tenants/all+external{PATH}", headers, token="operator-token")
    assert status == 406, body
    status, answer, _ = await listed(door, accept="application/vnd.kubernetes.protobuf,application/json")
    assert (status, answer["kind"]) == (200, "ConfigMapList")
    assert maps.headers["accept"] == "application/json"
    await listed(door, accept=METADATA)
    assert maps.headers["accept"] == METADATA


async def test_others_than_system_callers_are_refused_as_for_a_missing_tenant(door: Door, maps: Maps) -> None:
    for token in ("boss-token", "admin-token", "alice-token"):
        answers = [
            await door.request(f"GET /tenants/{tenant}{PATH}", token=token)
            for tenant in ("all+external", "all+reachable", "no-such")
        ]
        assert [status for status, _, _ in answers] == [403] * 3
        assert len({body for _, _, body in answers}) == 1
    assert maps.asked == []


async def test_nothing_is_written_or_read_by_name(door: Door, maps: Maps) -> None:
    for line in (f"GET /tenants/all+external{PATH}/a", f"DELETE /tenants/all+external{PATH}"):
        status, _, _ = await door.request(line, token="operator-token")
        assert status in (404, 405)
    assert maps.asked == []
