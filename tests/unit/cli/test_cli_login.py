"""`kubectl vcsync login`: which tokens it accepts, what it tells kubectl, and where it keeps tokens."""

import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from click.testing import CliRunner

from vcsync.cli.kubectl import login as command
from vcsync.cli.kubectl.oidc_tokens import (
    Client,
    LoginError,
    Tokens,
    exec_credential,
    exec_info,
    subject,
    tokens_of,
)
from vcsync.cli.kubectl.token_cache import TokenCache, forget
from vcsync.cli.tenant.kubeconfig import with_login

ISSUER = "https://sso.example.com/realms/platform"
KEY = "a key of which only the length matters here"


def id_token(**claims: Any) -> str:
    known = {"iss": ISSUER, "aud": "vcsync", "sub": "alice", "exp": 2000, "nonce": "n"}
    content = {name: value for name, value in (known | claims).items() if value is not None}
    return jwt.encode(content, KEY, "HS256")


def answer(**claims: Any) -> dict[str, Any]:
    return {"id_token": id_token(**claims), "refresh_token": "again"}


def test_a_token_response_becomes_tokens() -> None:
    found = tokens_of(answer(), issuer=ISSUER, client_id="vcsync", nonce="n")
    assert (found.expires, found.refresh_token) == (2000.0, "again")
    assert subject(found) == "alice"


def test_a_refresh_token_stays_valid_if_the_response_has_none() -> None:
    found = tokens_of({"id_token": id_token()}, issuer=ISSUER, client_id="vcsync", refresh_token="old")
    assert found.refresh_token == "old"


@pytest.mark.parametrize(
    ("response", "message"),
    [
        ({}, "gives no ID token"),
        ({"id_token": 5}, "gives no ID token"),
        ({"id_token": "nonsense"}, "gives an invalid ID token"),
        (answer(iss="https://other.example.com"), "of the issuer 'https://other.example.com'"),
        (answer(aud="other"), "for ['other']"),
        (answer(aud=["other", "third"]), "for ['other', 'third']"),
        (answer(nonce="of another login"), "of another login"),
        (answer(nonce=None), "of another login"),
        (answer(exp=None), 'missing the "exp" claim'),
        (answer(sub=None), 'missing the "sub" claim'),
    ],
)
def test_tokens_for_somebody_else_are_refused(response: dict[str, Any], message: str) -> None:
    with pytest.raises(LoginError) as refused:
        tokens_of(response, issuer=ISSUER, client_id="vcsync", nonce="n")
    assert message in str(refused.value)


def test_a_token_counts_as_expired_before_it_expires() -> None:
    tokens = Tokens("t", 100.0)
    assert tokens.last(69.0)
    assert not tokens.last(70.0)
    found = json.loads(exec_credential("client.authentication.k8s.io/v1", tokens))
    assert found["status"] == {"token": "t", "expirationTimestamp": "1970-01-01T00:01:10Z"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":true}}', True),
        ('{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{}}', False),
    ],
)
def test_kubectl_tells_whether_the_user_can_be_asked(text: str, expected: bool) -> None:
    assert exec_info(text) == ("client.authentication.k8s.io/v1", expected)


@pytest.mark.parametrize("text", ["", "{}", '{"apiVersion":"client.authentication.k8s.io/v1alpha1"}', "[]"])
def test_other_versions_of_exec_credentials_are_refused(text: str) -> None:
    with pytest.raises(LoginError, match="KUBERNETES_EXEC_INFO"):
        exec_info(text)


def test_secrets_are_in_no_representation() -> None:
    assert "secret" not in repr(Tokens("secret", 1.0, "secret")) + repr(
        Client(ISSUER, "vcsync", secret="secret")
    )


def test_tokens_are_kept_for_one_issuer_and_client_and_readable_by_their_user_only(tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    cache = TokenCache(folder, [ISSUER, "vcsync"])
    with cache.locked():
        assert cache.read() is None
        cache.write(Tokens("t", 5.0, "r"))
    assert cache.read() == Tokens("t", 5.0, "r")
    assert TokenCache(folder, [ISSUER, "other"]).read() is None
    assert folder.stat().st_mode & 0o077 == 0
    assert [path.stat().st_mode & 0o077 for path in folder.iterdir()] == [0, 0]
    assert forget(folder) == 1
    assert cache.read() is None
    assert forget(folder) == 0


def test_a_damaged_file_of_tokens_counts_as_none(tmp_path: Path) -> None:
    cache = TokenCache(tmp_path, [ISSUER, "vcsync"])
    cache.write(Tokens("t", 5.0))
    (path,) = tmp_path.glob("*.json")
    path.write_text('{"id_token": "t", ')
    assert cache.read() is None


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = TokenCache(tmp_path / "file" / "tokens", [ISSUER, "vcsync"])
    with pytest.raises(LoginError, match="--token-cache-dir"), cache.locked():
        pass


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({}, False), ({"DISPLAY": ":0", "SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, False)],
)
def test_a_machine_without_a_desktop_has_no_browser(environment: dict[str, str], expected: bool) -> None:
    assert command.has_browser(environment) is expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--client-id=vcsync"], "Missing option '--issuer'"),
        (["--issuer=http://sso.example.com", "--client-id=vcsync"], "give an https URL"),
        (["--issuer=https://127.0.0.1:1", "--client-id=vcsync"], "does not answer"),
        (
            ["--issuer=https://127.0.0.1:1", "--client-id=vcsync", "--certificate-authority=missing.crt"],
            "--certificate-authority missing.crt",
        ),
        (
            ["--issuer=https://127.0.0.1:1", "--client-id=vcsync", "--client-secret-file=missing"],
            "missing: No such file",
        ),
    ],
)
def test_mistakes_are_named(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(command.EXEC_INFO, raising=False)
    done = CliRunner().invoke(
        command.credentials, ["login", *arguments, f"--token-cache-dir={tmp_path / 'tokens'}"]
    )
    assert done.exit_code != 0
    assert message in done.output


def test_a_kubeconfig_with_a_login_has_no_secret() -> None:
    content = b"users: [{name: login@acme, user: {}}]\ncontexts: [{name: acme}]\nclusters: [{name: acme}]\nkind: Config\n"
    found = with_login(content, [f"--issuer={ISSUER}", "--client-id=vcsync"])
    assert "command: kubectl-vcsync" in found
    assert "- login\n" in found
    assert "token" not in found
    assert "key" not in found
