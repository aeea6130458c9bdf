"""Token Secrets: requested from the tenant, renewed in time, gone with their Pod."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from kinds_bench import CONTEXT, KEY, NOW, super_ns

from vcsync.api import names
from vcsync.kube.envelope import Envelope, parse
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
    "token-0": token.Granted("first-token", NOW + timedelta(seconds=3607)),
    "token-1": token.Granted("second-token", NOW + timedelta(seconds=600)),
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
    assert token.renew_at(NOW, NOW + lifetime) == NOW + renewed_after


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


def test_an_answer_is_read_and_never_shown() -> None:
    answer = token.granted(b'{"status":{"token":"very-secret","expirationTimestamp":"2026-05-01T13:00:00Z"}}')
    assert answer == token.Granted("very-secret", datetime(2026, 5, 1, 13, tzinfo=UTC))
    assert "very-secret" not in repr(answer)
    assert "very-secret" not in repr({"a": answer})
    with pytest.raises(msgspec.DecodeError):
        token.granted(b'{"kind":"Status"}')


def test_the_secret_says_whose_it_is_and_until_when() -> None:
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


def test_nothing_happens_before_the_time_and_a_renewal_then() -> None:
    early = token.plan(secret(), pod(), CONTEXT, now=NOW + timedelta(seconds=479))
    assert early.actions == ()
    assert early.wait is not None
    assert early.wait.after == 1.0
    (request,) = token.plan(secret(), pod(), CONTEXT, now=NOW + timedelta(seconds=480)).actions
    assert request == msgspec.structs.replace(REQUEST, secret_uid="secret-uid")


def test_a_renewal_replaces_the_data_and_the_times() -> None:
    action = msgspec.structs.replace(REQUEST, secret_uid="secret-uid")
    later = NOW + timedelta(minutes=8)
    fresh = {key: token.Granted("new", later + timedelta(seconds=600)) for key in GRANTS}
    patch = token.secret_patch(action, fresh, issued=later)
    assert isinstance(patch, Patch)
    assert patch.patch["metadata"]["uid"] == "secret-uid"
    assert patch.patch["metadata"]["annotations"][names.TOKEN_RENEW] == "2026-05-01T12:16:00Z"
    assert set(patch.patch["data"]) == {"token-0", "token-1"}


@pytest.mark.parametrize(
    ("v", "confirm"),
    [(None, True), (pod("another"), True), (pod(phase="Failed"), False), (pod(phase="Succeeded"), False)],
)
def test_the_secret_goes_with_its_pod(v: Envelope | None, confirm: bool) -> None:
    (delete,) = token.plan(secret(), v, CONTEXT, now=NOW).actions
    assert isinstance(delete, Delete)
    assert (delete.side, delete.uid, delete.confirm) == ("super", "secret-uid", confirm)


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01T00:00:00Z"])
def test_an_unreadable_time_means_now(text: str) -> None:
    defaced = secret(annotations={names.TOKEN_RENEW: text})
    assert isinstance(token.plan(defaced, pod(), CONTEXT, now=NOW).actions[0], RequestToken)


@pytest.mark.parametrize(
    "annotations",
    [{names.TOKENS: "{"}, {names.TOKENS: "[]"}, {names.TOKENS: '{"serviceAccount":"","tokens":[]}'}],
)
def test_a_secret_defaced_beyond_use_is_made_anew(annotations: dict[str, str]) -> None:
    defaced = secret(annotations={names.TOKEN_RENEW: "", **annotations})
    assert isinstance(token.plan(defaced, pod(), CONTEXT, now=NOW).actions[0], Delete)


def test_another_tenants_or_a_dying_secret_is_left_alone() -> None:
    foreign = secret(annotations={names.CLUSTER: "other"})
    assert token.plan(foreign, None, CONTEXT, now=NOW).actions == ()
    dying = secret(metadata={"deletionTimestamp": "2026-05-01T12:00:00Z"})
    assert token.plan(dying, None, CONTEXT, now=NOW).actions == ()
