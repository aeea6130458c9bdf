"""Node ports of Services: all of the range can be given."""

from typing import Any

PLACE = "/api/v1/namespaces/default/services"


def balanced(name: str, ports: int) -> dict[str, Any]:
    listed = [{"name": f"p{number}", "port": 1 + number} for number in range(ports)]
    return {"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": listed}}


async def test_services_with_many_ports_get_them_until_hardly_any_is_left(api) -> None:
    """Of a hundred drawn at random some were taken each time: the range was said to be full with a tenth of it given."""
    given: set[int] = set()
    for number in range(27):
        made = await api("POST", PLACE, balanced(f"s{number}", 100))
        assert made.status == 201, made.body
        given |= {each["nodePort"] for each in made.body["spec"]["ports"]}
    assert len(given) == 2700
    refused = await api("POST", PLACE, balanced("last", 100))
    assert refused.status == 500
    assert "range is full" in refused.body["message"]
