"""Bodies that are announced and never sent: the server must not wait for them before the caller is authorized."""

from collections.abc import Sequence

from hack.attacks.case import Case, Scene, Who, anonymous, attacker, lowly, wrong
from hack.attacks.routes import operators, routes
from hack.attacks.world import VICTIM

REFUSED = frozenset({400, 401, 403, 404, 405})
LENGTHS = ("Content-Length: 3145728", "Transfer-Encoding: chunked")


def cases() -> Sequence[Case]:
    """Announce bodies of anonymous callers to every route, and bodies of tenants' users to the operator's routes."""
    posts = [each.path for each in routes(tenant=VICTIM) if each.method == "POST"]
    found = [_withheld("nobody", anonymous, path, LENGTHS[number % 2]) for number, path in enumerate(posts)]
    for path in operators(VICTIM):
        for length in LENGTHS:
            found += [
                _withheld("an administrator", attacker, path, length),
                _withheld("a user", lowly, path, length),
            ]
    return found


def _withheld(whose: str, who: Who, path: str, length: str) -> Case:
    def attack(scene: Scene) -> list[str]:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{length}\r\n\r\n"
        return wrong(who(scene).raw(head.encode())[0], REFUSED)

    return Case(f"POST {path} of {whose}, {length.partition(':')[0]}", attack)
