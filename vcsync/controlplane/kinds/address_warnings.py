"""Warnings about addresses and ranges that are not in their canonical form. Pure.

Source: `GetWarningsForIP`, `GetWarningsForCIDR` in apimachinery's `util/validation/ip.go`.
"""

import ipaddress

from vcsync.controlplane.kinds.addresses import parse, range_of, shown


def address_warnings(path: str, value: str) -> list[str]:
    """Warn about one address."""
    found = parse(value)
    if found is None:
        return []
    if shown(found) != str(found) or (found.version == 4 and str(found) != value):
        return [f'{path}: non-standard IP address "{value}" is invalid: use "{shown(found)}"']
    if str(found) != value:
        return [f'{path}: IPv6 address "{value}" should be in RFC 5952 canonical format ("{found}")']
    return []


def cidr_warnings(path: str, value: str) -> list[str]:
    """Warn about one range."""
    parsed = range_of(value)
    if parsed is None:
        return []
    host, length = parsed
    network = ipaddress.ip_network(f"{host}/{length}", strict=False)
    found = []
    if network.network_address != host:
        single = f"{host}/{host.max_prefixlen}"
        told = f'is ambiguous in this context (should be "{network}" or "{single}"?)'
        found.append(f'{path}: CIDR value "{value}" {told}')
    if host.version == 4 and f"{host}/{length}" != value:
        found.append(f'{path}: non-standard CIDR value "{value}" is invalid: use "{network}"')
    elif not found and f"{host}/{length}" != value:
        told = f'should be in RFC 5952 canonical format ("{host}/{length}")'
        found.append(f'{path}: IPv6 CIDR value "{value}" {told}')
    return found
