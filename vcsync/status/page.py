"""Renders `/status` as an HTML page of tables. Pure. The page has no scripts, and all values are escaped."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from vcsync.objects.readable_amounts import readable

REFRESH_SECONDS = 5
MOST_ROWS = 200
"""Most rows of a table. `/status` contains all."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; form-action 'none'; base-uri 'none'"
"""Content-Security-Policy, because the page contains names and messages of tenants."""
_STYLE = (
    "body{font:14px sans-serif;margin:2em}table{border-collapse:collapse;margin-bottom:2em}"
    "th,td{border:1px solid #ccc;padding:.3em .6em;text-align:left;vertical-align:top}"
    "th{background:#eee}.no{background:#fdd}"
)

Json = Mapping[str, Any]
Row = Sequence[Any]


def page(status: Json) -> str:
    """Return the page for a response of `/status`."""
    roles: Mapping[str, Json] = status["roles"]
    tables = (
        ("Roles", ("role", "ready", "reason", "restarts", "last failure"), _roles(roles)),
        (
            "Super clusters",
            ("name", "health", "reason", "heartbeat", "cordoned", "draining", "capacity", "dealt", "free"),
            _super_clusters(roles),
        ),
        ("Tenants", ("tenant", "role", "state", "queued", "waiting", "last error"), _tenants(roles)),
        ("Waiting", ("role", "object", "reason"), _waiting(roles)),
        ("Last errors", ("role", "object", "error"), _errors(roles)),
    )
    about = f"vcsync {status['version']}, since {status['startedAt']} ({status['uptimeSeconds']} s)"
    return (
        "<!DOCTYPE html>\n"
        '<html lang="en"><head><meta charset="utf-8"><title>vcsync</title>'
        f'<meta http-equiv="refresh" content="{REFRESH_SECONDS}"><style>{_STYLE}</style></head><body>\n'
        f'<h1>{escape(about)}</h1><p><a href="/status">status as JSON</a>, <a href="/metrics">metrics</a></p>\n'
        + "".join(_table(title, columns, list(rows)) for title, columns, rows in tables)
        + "</body></html>\n"
    )


def _table(title: str, columns: Row, rows: Sequence[Row]) -> str:
    if not rows:
        return f"<h2>{escape(title)}</h2><p>none</p>\n"
    body = "".join(f"<tr{_alarm(row)}>{_cells('td', row)}</tr>\n" for row in rows[:MOST_ROWS])
    more = f"<p>and {len(rows) - MOST_ROWS} more: see /status</p>\n" if len(rows) > MOST_ROWS else ""
    return f"<h2>{escape(title)}</h2><table><tr>{_cells('th', columns)}</tr>\n{body}</table>\n{more}"


def _cells(tag: str, row: Row) -> str:
    return "".join(f"<{tag}>{escape(_text(each))}</{tag}>" for each in row)


def _alarm(row: Row) -> str:
    return ' class="no"' if row[1] in (False, "Lost", "Suspect", "Unknown") else ""


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(each)}" for key, each in value.items())
    return str(value)


def _amounts(value: Any) -> str:
    return ", ".join(f"{name} {readable(str(amount), name)}" for name, amount in _mapping(value).items())


def _ago(seconds: Any) -> str:
    return "never" if seconds is None else f"{seconds:.0f} s ago"


def _roles(roles: Mapping[str, Json]) -> Iterable[Row]:
    for name, role in roles.items():
        yield name, role.get("ready"), role.get("reason"), role.get("restarts"), role.get("lastFailure")


def _super_clusters(roles: Mapping[str, Json]) -> Iterable[Row]:
    clusters = _mapping(roles.get("nsscheduler", {}).get("superClusters"))
    for name, each in clusters.items():
        yield (
            name,
            each.get("health"),
            each.get("reason"),
            _ago(each.get("silentSeconds")),
            each.get("cordoned"),
            each.get("draining"),
            _amounts(each.get("capacity")),
            _amounts(each.get("dealt")),
            _amounts(each.get("free")),
        )


def _tenants(roles: Mapping[str, Json]) -> Iterable[Row]:
    for name, role in roles.items():
        tenants = role.get("tenants")
        if isinstance(tenants, Mapping):
            for each in tenants.values():
                yield (
                    each.get("vc"),
                    name,
                    each.get("state"),
                    each.get("queue"),
                    each.get("waiting"),
                    each.get("lastError"),
                )
        for each in _list(tenants):
            waiting = len(_list(each.get("waiting")))
            tenant = each.get("virtual_cluster")
            yield tenant, name, each.get("state"), each.get("queued"), waiting, each.get("last_error")


def _waiting(roles: Mapping[str, Json]) -> Iterable[Row]:
    for name, role in roles.items():
        for each in _list(role.get("waiting")):
            yield name, f"{each.get('tenant')}/{each.get('namespace')}", each.get("reason")
        for tenant in _list(role.get("tenants")):
            for each in _list(tenant.get("waiting")):
                yield name, f"{tenant.get('virtual_cluster')}: {each.get('item')}", each.get("reason")
        for each in _list(role.get("drains")):
            yield name, f"drain of {each.get('tenant')}/{each.get('namespace')}", each.get("reason")


def _errors(roles: Mapping[str, Json]) -> Iterable[Row]:
    for name, role in roles.items():
        for each in _list(role.get("lastErrors")):
            yield name, f"{each.get('tenant')}: {each.get('item')}", each.get("error")


def _list(value: Any) -> Sequence[Json]:
    return value if isinstance(value, list) else ()


def _mapping(value: Any) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}
