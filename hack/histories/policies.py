"""Compares `status.typeChecking` of ValidatingAdmissionPolicies on both sides: same warnings in the same words."""

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import yaml

from hack.histories.arena import Side
from hack.histories.playing import PATIENCE, shown
from vcsync.kube.client import Client
from vcsync.kube.resources import VALIDATING_ADMISSION_POLICIES
from vcsync.objects.envelope import to_dict

POLL_SECONDS = 0.5
_MASKS = (
    # kube-controller-manager names the types of objects at random for each check.
    (re.compile(r"\b[A-Z][A-Za-z]*\d+(?:\.[\w@]+)*"), "object"),
    # The checkers differ in the type of the list that a macro collects, in the text of one error.
    (re.compile(r"('_\?_:_' applied to '\(\w+, list\([\w()]+\), )list\(.*?\)\)'"), r"\1list)'"),
)
CASES: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "policies.yaml").read_text(encoding="utf-8")
)
"""Fields of `spec` by the name of the policy, with `resources` for `matchConstraints` and `expressions` for `validations`."""


async def differences(sides: tuple[Side, Side]) -> list[str]:
    """Return the differences between the two sides, one text per policy."""
    theirs, ours = await asyncio.gather(*(_checked(side.client) for side in sides))
    found = []
    for name in CASES:
        alike = theirs[name] == ours[name]
        print(f"policy {name}: {'alike' if alike else 'differs'}", flush=True)
        if not alike:
            found.append(f"{name}\n{shown(theirs[name], ours[name])}")
    return found


async def _checked(client: Client) -> dict[str, dict[str, Any]]:
    """Create all policies; return their statuses once the controller has written them.

    Raises:
        TimeoutError: The controller has not checked a policy within `PATIENCE`.
    """
    for name, case in CASES.items():
        await client.create(VALIDATING_ADMISSION_POLICIES, policy(name, case))
    deadline = time.monotonic() + PATIENCE
    while True:
        listed = [to_dict(each) for each in await client.list(VALIDATING_ADMISSION_POLICIES)]
        statuses = {each["metadata"]["name"]: masked(each.get("status") or {}) for each in listed}
        waiting = [name for name in CASES if not statuses[name].get("observedGeneration")]
        if not waiting:
            return statuses
        if time.monotonic() > deadline:
            raise TimeoutError(f"{client}: no status of policies {waiting} after {PATIENCE:.0f} s")
        await asyncio.sleep(POLL_SECONDS)


def masked(status: dict[str, Any]) -> dict[str, Any]:
    """Return a status without the words that differ for every policy on any two servers."""
    for each in (status.get("typeChecking") or {}).get("expressionWarnings") or ():
        for pattern, replacement in _MASKS:
            each["warning"] = pattern.sub(replacement, each["warning"])
    return status


def policy(name: str, case: dict[str, Any]) -> dict[str, Any]:
    """Return the policy of a case."""
    spec = {key: value for key, value in case.items() if key not in ("resources", "expressions")}
    if "expressions" in case:
        spec["validations"] = [{"expression": each} for each in case["expressions"].splitlines()]
    rules = []
    for each in case["resources"]:
        group, version, resource = each.split("/", 2)
        rules.append(
            {
                "apiGroups": [group],
                "apiVersions": [version],
                "operations": ["CREATE", "UPDATE"],
                "resources": [resource],
            }
        )
    return {"metadata": {"name": name}, "spec": {**spec, "matchConstraints": {"resourceRules": rules}}}
