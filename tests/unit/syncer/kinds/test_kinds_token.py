"""Token Secrets: requested from the tenant, renewed in time, and deleted with their Pods."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from kinds_bench import CONTEXT, KEY, NOW, super_ns

from vcsync.api import names
from vcsync.objects.envelope import Envelope, parse
from vcsync.syncer.kinds import KINDS, token
from vcsync.syncer.kinds.plan import Delete, Patch, RequestToken, TokenSource

TOKENS = (TokenSource("token-0", "", 3607), TokenSource("token-1", "vault", 600))
REQUEST = RequestToken(
    namespace="shop",
    pod_name="web",
    pod_uid="pod-uid",
    service_account="robot",
    super_namespace=super_ns("shop"),
    secret_name=token.secret_name("pod-uid"),
    secret_uid="",
    tokens=TOKENS,
)
GRANTS = {
    "token-0": token.Granted("first-token", NOW + timedelta(seconds=3607), 3607),
    "token-1": token.Granted("second-token", NOW + timedelta(seconds=600), 600),
}


def secret(**changes: Any) -> Envelope:
    body = token.secret_body(REQUEST, GRANTS, CONTEXT, issued=NOW)
    body["metadata"] |= {"uid": "secret-uid", **changes.pop("metadata", {})}
    body["metadata"]["annotations"] |= changes.pop("annotations", {})
    return parse(json.dumps(body).encode())


def pod(uid: str = "pod-uid", phase: str = "Running") -> Envelope:
    return Envelope("web", "shop", uid, status=json.dumps({"phase": phase}).encode())


@pytest.mark.parametrize(
    ("lifetime", "renewed_after"),
    [
        (timedelta(seconds=600), timedelta(seconds=480)),
        (timedelta(hours=1), timedelta(minutes=48)),
        (timedelta(hours=30), timedelta(hours=24)),
        (timedelta(days=365), timedelta(hours=24)),
    ],
)
def test_tokens_are_renewed_when_the_kubelet_would(lifetime: timedelta, renewed_after: timedelta) -> None:
    assert token.renew_at(NOW, lifetime) == NOW + renewed_after


@pytest.mark.parametrize("ahead", [timedelta(hours=1), timedelta(hours=-1), timedelta(days=30)])
def test_a_clock_difference_does_not_change_the_time_of_renewal(
    ahead: timedelta,
) -> None:
    here = NOW + ahead
    body = token.secret_body(REQUEST, GRANTS, CONTEXT, issued=here)
    assert (
        datetime.fromisoformat(body["metadata"]["annotations"][names.TOKEN_RENEW]) - here
    ).total_seconds() == 480


def test_a_clock_that_was_set_back_does_not_let_tokens_expire() -> None:
    (request,) = token.plan(secret(), pod(), CONTEXT, now=NOW - timedelta(hours=1)).actions
    assert isinstance(request, RequestToken)
    assert token.plan(secret(), pod(), CONTEXT, now=NOW).actions == ()


def test_a_longer_lifetime_than_requested_is_ignored() -> None:
    longer = {key: token.Granted("t", NOW + timedelta(days=1), 86400) for key in GRANTS}
    annotations = token.secret_body(REQUEST, longer, CONTEXT, issued=NOW)["metadata"]["annotations"]
    assert token.plan(secret(annotations=annotations), pod(), CONTEXT, now=NOW).actions == ()


def test_a_request_is_bound_to_the_tenants_pod() -> None:
    assert token.token_request(REQUEST, TOKENS[1]) == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            "audiences": ["vault"],
            "expirationSeconds": 600,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "pod-uid"},
        },
    }
    assert "audiences" not in token.token_request(REQUEST, TOKENS[0])["spec"]


def test_the_repr_of_an_answer_does_not_contain_the_token() -> None:
    answer = token.granted(
        b'{"spec":{"expirationSeconds":600},'
        b'"status":{"token":"very-secret","expirationTimestamp":"2026-05-01T13:00:00Z"}}'
    )
    assert answer == token.Granted("very-secret", datetime(2026, 5, 1, 13, tzinfo=UTC), 600)
    assert "very-secret" not in repr(answer)
    assert "very-secret" not in repr({"a": answer})
    with pytest.raises(msgspec.DecodeError):
        token.granted(b'{"kind":"Status"}')


def test_the_secret_has_its_owner_and_its_times() -> None:
    body = token.secret_body(REQUEST, GRANTS, CONTEXT, issued=NOW)
    assert body["type"] == "Opaque"
    assert body["metadata"]["labels"][names.CONTROLLED] == "true"
    annotations = body["metadata"]["annotations"]
    assert annotations[names.CLUSTER] == KEY
    assert annotations[names.UID] == "pod-uid"
    assert annotations[names.NAMESPACE] == "shop"
    assert annotations[names.TOKEN_EXPIRES] == "2026-05-01T12:10:00Z"
    assert annotations[names.TOKEN_RENEW] == "2026-05-01T12:08:00Z"
    assert {key: base64.b64decode(value) for key, value in body["data"].items()} == {
        "token-0": b"first-token",
        "token-1": b"second-token",
    }
    assert token.pod_of(secret()) == ("shop", "web")
    assert KINDS["pods"].related[0].item(secret()) == ("shop", "web")
    assert token.pod_of(Envelope("other", annotations=secret().annotations)) is None


def test_a_token_is_renewed_when_it_is_due() -> None:
    early = token.plan(secret(), pod(), CONTEXT, now=NOW + timedelta(seconds=479))
    assert early.actions == ()
    assert early.wait is not None
    assert early.wait.after == 1.0
    (request,) = token.plan(secret(), pod(), CONTEXT, now=NOW + timedelta(seconds=480)).actions
    assert request == msgspec.structs.replace(REQUEST, secret_uid="secret-uid")


def test_a_renewal_replaces_the_data_and_the_times() -> None:
    action = msgspec.structs.replace(REQUEST, secret_uid="secret-uid")
    later = NOW + timedelta(minutes=8)
    fresh = {key: token.Granted("new", later + timedelta(seconds=600), 600) for key in GRANTS}
    patch = token.secret_patch(action, fresh, issued=later)
    assert isinstance(patch, Patch)
    assert patch.patch["metadata"]["uid"] == "secret-uid"
    assert patch.patch["metadata"]["annotations"][names.TOKEN_RENEW] == "2026-05-01T12:16:00Z"
    assert set(patch.patch["data"]) == {"token-0", "token-1"}


@pytest.mark.parametrize(
    ("v", "confirm"),
    [(None, True), (pod("another"), True), (pod(phase="Failed"), False), (pod(phase="Succeeded"), False)],
)
def test_the_secret_is_deleted_with_its_pod(v: Envelope | None, confirm: bool) -> None:
    (delete,) = token.plan(secret(), v, CONTEXT, now=NOW).actions
    assert isinstance(delete, Delete)
    assert (delete.side, delete.uid, delete.confirm) == ("super", "secret-uid", confirm)


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01T00:00:00Z"])
def test_an_invalid_time_of_renewal_is_due_now(text: str) -> None:
    defaced = secret(annotations={names.TOKEN_RENEW: text})
    assert isinstance(token.plan(defaced, pod(), CONTEXT, now=NOW).actions[0], RequestToken)


@pytest.mark.parametrize(
    "annotations",
    [{names.TOKENS: "{"}, {names.TOKENS: "[]"}, {names.TOKENS: '{"serviceAccount":"","tokens":[]}'}],
)
def test_a_secret_with_invalid_annotation_is_recreated(annotations: dict[str, str]) -> None:
    defaced = secret(annotations={names.TOKEN_RENEW: "", **annotations})
    assert isinstance(token.plan(defaced, pod(), CONTEXT, now=NOW).actions[0], Delete)


def test_a_secret_of_another_tenant_or_being_deleted_is_ignored() -> None:
    foreign = secret(annotations={names.CLUSTER: "other"})
    assert token.plan(foreign, None, CONTEXT, now=NOW).actions == ()
    dying = secret(metadata={"deletionTimestamp": "2026-05-01T12:00:00Z"})
    assert token.plan(dying, None, CONTEXT, now=NOW).actions == ()
