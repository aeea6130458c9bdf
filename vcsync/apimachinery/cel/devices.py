"""Device selectors: compiles the CEL expressions of DeviceClasses and ResourceClaims.

Source: k8s.io/dynamic-resource-allocation's `cel/compile.go`. The scheduler evaluates the selectors.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.cel.compiler import NotCompiled, check, environment
from vcsync.apimachinery.cel.declared import Declared
from vcsync.apimachinery.cel.programs import told
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.strategy import Behaviour, Object

GROUP = "resource.k8s.io"
LONGEST = 10 * 1024
Selectors = Iterator[tuple[str, Object]]


@cache
def _checker() -> Any:
    text = Declared("string")
    fields = {
        "driver": text,
        "allowMultipleAllocations": Declared("bool"),
        "attributes": Declared("map", element=Declared("map", element=Declared("dyn"))),
        "capacity": Declared("map", element=Declared("map", element=Declared("kubernetes.Quantity"))),
    }
    device = Declared(
        "object", title="DRADevice", fields={name: (name, type_) for name, type_ in fields.items()}
    )
    return environment({"device": device}, bindings=True)


def fault(expression: str) -> str:
    """Return the error of a selector, or an empty string."""
    try:
        output = check(_checker, expression).output
    except NotCompiled as why:
        return f"compilation failed: {why}"
    if output.kind in ("bool", "dyn"):
        return ""
    return f"must evaluate to bool or the unknown type, not {told(output)}"


def _selectors(path: str, found: Object) -> Selectors:
    for index, each in enumerate(found.get("selectors") or ()):
        yield f"{path}.selectors[{index}].cel.expression", each.get("cel") or {}


def _of_devices(path: str, devices: Object) -> Selectors:
    for index, each in enumerate(devices.get("requests") or ()):
        here = f"{path}.requests[{index}]"
        yield from _selectors(f"{here}.exactly", each.get("exactly") or {})
        for at, other in enumerate(each.get("firstAvailable") or ()):
            yield from _selectors(f"{here}.firstAvailable[{at}]", other)


_SELECTORS: Mapping[str, Callable[[Object], Selectors]] = {
    "DeviceClass": lambda spec: _selectors("spec", spec),
    "ResourceClaim": lambda spec: _of_devices("spec.devices", spec.get("devices") or {}),
    "ResourceClaimTemplate": lambda spec: _of_devices(
        "spec.spec.devices", (spec.get("spec") or {}).get("devices") or {}
    ),
}


def findings(kind: str, obj: Object) -> list[FieldError]:
    """Return the findings on the selectors of an object."""
    found = []
    for path, selector in _SELECTORS[kind](obj.get("spec") or {}):
        expression = selector.get("expression") or ""
        if len(expression) > LONGEST:
            found.append(errors.too_long(path, LONGEST))
        elif selector and (why := fault(expression)):
            found.append(errors.wrong(path, expression, why))
    return found


def _with(kind: str, behaviour: Behaviour) -> Behaviour:
    def validate(new: Object) -> list[FieldError]:
        return [*behaviour.validate(new), *findings(kind, new)]

    def validate_update(new: Object, old: Object) -> list[FieldError]:
        known = behaviour.validate_update(new, old)
        # Stored selectors were valid once. A stricter later rule must not prevent other changes.
        return known if new.get("spec") == old.get("spec") else [*known, *findings(kind, new)]

    return replace(behaviour, validate=validate, validate_update=validate_update)


def compiled(behaviours: Mapping[tuple[str, str], Behaviour]) -> dict[tuple[str, str], Behaviour]:
    """Return the behaviours of kinds, with findings on device selectors added."""
    return {(GROUP, kind): _with(kind, behaviours[GROUP, kind]) for kind in _SELECTORS}
