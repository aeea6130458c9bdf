"""The status page: its tables, and that no value becomes markup."""

from html.parser import HTMLParser
from typing import Any

import pytest

from vcsync.status.page import MOST_ROWS, page

EVIL = "<script>alert('x')</script>"


class Cells(HTMLParser):
    """Parses a page to the rows of its tables and to all tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.rows: list[list[str]] = []
        self._open = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        self._open = tag in ("td", "th")

    def handle_endtag(self, tag: str) -> None:
        self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self.rows[-1][-1] += data


def shown(**roles: dict[str, Any]) -> Cells:
    return Cells(
        page({"version": "1", "startedAt": "2026-01-01T00:00:00Z", "uptimeSeconds": 5, "roles": roles})
    )


@pytest.mark.parametrize(("health", "marked"), [("Ready", False), ("Suspect", True), ("Lost", True)])
def test_unhealthy_super_clusters_are_highlighted(health: str, marked: bool) -> None:
    status = {"version": "1", "startedAt": "", "uptimeSeconds": 0}
    text = page(
        {**status, "roles": {"nsscheduler": {"ready": True, "superClusters": {"r1": {"health": health}}}}}
    )
    assert ('<tr class="no"><td>r1</td>' in text) is marked


def test_roles_are_listed_with_the_reason_why_they_are_not_ready() -> None:
    found = shown(podscheduler={"ready": False, "reason": "no leader", "restarts": 2, "lastFailure": "boom"})
    assert ["podscheduler", "no", "no leader", "2", "boom"] in found.rows


def test_super_clusters_and_tenants_are_listed() -> None:
    scheduler = {
        "ready": True,
        "superClusters": {
            "r1": {
                "health": "Suspect",
                "reason": "no heartbeat for 80s",
                "silentSeconds": 80.4,
                "capacity": {"cpu": "303600m", "memory": "1073741824"},
                "dealt": {"cpu": "1"},
                "free": {"cpu": "302600m"},
            }
        },
        "tenants": {
            "key": {"vc": "vcsync/acme", "state": "Ready", "queue": 1, "waiting": 2, "lastError": None}
        },
    }
    syncer = {
        "tenants": [{"virtual_cluster": "vcsync/acme", "state": "Failing", "queued": 3, "last_error": "401"}]
    }
    rows = shown(nsscheduler=scheduler, syncer=syncer).rows
    assert [
        "r1",
        "Suspect",
        "no heartbeat for 80s",
        "80 s ago",
        "",
        "",
        "cpu 303.6, memory 1Gi",
        "cpu 1",
        "cpu 302.6",
    ] in rows
    assert ["vcsync/acme", "nsscheduler", "Ready", "1", "2", ""] in rows
    assert ["vcsync/acme", "syncer", "Failing", "3", "0", "401"] in rows


def test_waiting_objects_and_errors_are_listed_with_the_reason() -> None:
    scheduler = {
        "waiting": [{"tenant": "acme", "namespace": "shop", "reason": "no room"}],
        "lastErrors": [{"tenant": "acme", "item": "shop", "error": "409"}],
    }
    syncer = {
        "tenants": [
            {"virtual_cluster": "vcsync/acme", "waiting": [{"item": "pods/shop/a", "reason": "for Secret s"}]}
        ],
        "drains": [{"tenant": "acme", "namespace": "old", "reason": "2 Pods are still terminating"}],
        "lastErrors": [{"tenant": "acme", "item": "pods/shop/b", "error": "503"}],
    }
    rows = shown(nsscheduler=scheduler, syncer=syncer).rows
    for row in (
        ["nsscheduler", "acme/shop", "no room"],
        ["syncer", "vcsync/acme: pods/shop/a", "for Secret s"],
        ["syncer", "drain of acme/old", "2 Pods are still terminating"],
        ["nsscheduler", "acme: shop", "409"],
        ["syncer", "acme: pods/shop/b", "503"],
    ):
        assert row in rows


def test_texts_of_tenants_are_escaped() -> None:
    waiting = [{"tenant": EVIL, "namespace": EVIL, "reason": EVIL}]
    errors = [{"tenant": EVIL, "item": EVIL, "error": EVIL}]
    found = shown(**{EVIL: {"ready": True, "reason": EVIL, "waiting": waiting, "lastErrors": errors}})
    assert "script" not in found.tags
    assert [EVIL, f"{EVIL}/{EVIL}", EVIL] in found.rows


def test_long_tables_are_cut_and_the_remaining_rows_counted() -> None:
    waiting = [{"tenant": "a", "namespace": f"n{n}", "reason": "x"} for n in range(MOST_ROWS + 7)]
    text = page({"version": "1", "startedAt": "", "uptimeSeconds": 0, "roles": {"s": {"waiting": waiting}}})
    assert text.count("<td>a/n") == MOST_ROWS
    assert "and 7 more" in text


def test_a_role_without_state_does_not_hide_others() -> None:
    rows = shown(broken={"ready": False, "reason": "cannot say"}, fine={"ready": True, "reason": ""}).rows
    assert ["broken", "no", "cannot say", "", ""] in rows
    assert ["fine", "yes", "", "", ""] in rows
