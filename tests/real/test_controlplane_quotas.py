"""ResourceQuotas with two control plane processes on one real etcd: together they do not exceed a quota."""

import base64
import json
import ssl
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.embedded import ControlPlane
from hack.etcd import Etcd

LIMIT, WRITES, AT_ONCE = 10, 60, 8
MAPS = "/api/v1/namespaces/default/configmaps"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"


class Asker:
    """One process, used by the tenant's admin."""

    def __init__(self, plane: ControlPlane, kubeconfig: Path) -> None:
        content = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
        pair = kubeconfig.with_suffix(".pem")
        pair.touch(mode=0o600)
        pair.write_bytes(
            base64.b64decode(content["client-certificate-data"])
            + base64.b64decode(content["client-key-data"])
        )
        self._tls = ssl._create_unverified_context()
        self._tls.load_cert_chain(pair)
        self._url = f"{plane.url}/tenants/acme"

    def __call__(
        self, method: str, path: str, body: object = None, form: str = "application/json"
    ) -> tuple[int, dict[str, Any]]:
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(
            self._url + path, data, {"Content-Type": form, "Accept": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(asked, timeout=30, context=self._tls) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())


@pytest.fixture
def both(tmp_path: Path) -> Iterator[list[Asker]]:
    etcd = Etcd(tmp_path / "etcd")
    etcd.start()
    try:
        with ControlPlane(tmp_path / "one", etcd=etcd.url) as one:
            kubeconfig = one.create("acme")
            with ControlPlane(tmp_path / "two", etcd=etcd.url) as two:
                yield [Asker(one, kubeconfig), Asker(two, kubeconfig)]
    finally:
        etcd.close()


def test_two_processes_together_keep_a_quota(both: list[Asker]) -> None:
    hard = {"configmaps": str(LIMIT), "count/leases.coordination.k8s.io": "1"}
    before = len(both[0]("GET", MAPS)[1]["items"])
    used = {**dict.fromkeys(hard, "0"), "configmaps": str(before)}
    assert both[0]("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})[0] == 201
    status = {"status": {"hard": hard, "used": used}}
    assert both[1]("PATCH", f"{QUOTAS}/q/status", status, "application/merge-patch+json")[0] == 200

    def create(number: int) -> tuple[int, dict[str, Any]]:
        return both[number % 2]("POST", MAPS, {"metadata": {"name": f"m{number}"}})

    with ThreadPoolExecutor(AT_ONCE) as workers:
        answers = list(workers.map(create, range(WRITES)))
    assert Counter(code for code, _ in answers) == {201: LIMIT - before, 403: WRITES - LIMIT + before}
    assert all("exceeded quota: q" in body["message"] for code, body in answers if code == 403)
    for asker in both:
        assert len(asker("GET", MAPS)[1]["items"]) == LIMIT
        assert asker("GET", f"{QUOTAS}/q")[1]["status"]["used"]["configmaps"] == str(LIMIT)
