"""Warnings about IP addresses and CIDRs that are not in canonical form. Pure.

Source: `GetWarningsForIP`, `GetWarningsForCIDR` in apimachinery's `util/validation/ip.go`.
"""

import ipaddress

from vcsync.apimachinery.kinds.common.addresses import parse, range_of, shown


def address_warnings(path: str, value: str) -> list[str]:
    """Return the warnings about an IP address."""
    found = parse(value)
    if found is None:
        return []
    if shown(found) != str(found) or (found.version == 4 and str(found) != value):
        return [f'{path}: non-standard IP address "{value}" is invalid: use "{shown(found)}"']
    if str(found) != value:
        return [f'{path}: IPv6 address "{value}" should be in RFC 5952 canonical format ("{found}")']
    return []


def cidr_warnings(path: str, value: str) -> list[str]:
    """Return the warnings about a CIDR."""
    parsed = range_of(value)
    if parsed is None:
        return []
    host, length = parsed
    network = ipaddress.ip_network(f"{host}/{length}", strict=False)
    found = []
    if network.network_address != host:
        single = f"{host}/{host.max_prefixlen}"
        message = f'is ambiguous in this context (should be "{network}" or "{single}"?)'
        found.append(f'{path}: CIDR value "{value}" {message}')
    if host.version == 4 and f"{host}/{length}" != value:
        found.append(f'{path}: non-standard CIDR value "{value}" is invalid: use "{network}"')
    elif not found and f"{host}/{length}" != value:
        message = f'should be in RFC 5952 canonical format ("{host}/{length}")'
        found.append(f'{path}: IPv6 CIDR value "{value}" {message}')
    return found
