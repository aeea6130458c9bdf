"""The recorded facts about kube-apiserver equal those of a running one."""

from __future__ import annotations

import json

from hack import discovery, table_columns
from hack.testbed import TestBed


def test_the_recorded_resources_are_those_of_discovery(testbed: TestBed) -> None:
    server = table_columns.Server(testbed.clusters["acme"].kubeconfig)
    assert list(discovery.record(server)) == json.loads(discovery.OUT.read_text(encoding="utf-8"))
