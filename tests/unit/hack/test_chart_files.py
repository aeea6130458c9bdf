"""Files of the chart that need no Helm to be checked: its version, its values and its alerts."""

import json
import re
from typing import Any

import yaml

from hack.generate import CONFIG, ROOT
from vcsync import __version__

CHART = CONFIG / "chart"
METRIC = re.compile(r"vcsync_[a-z_]+")


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CONFIG / "chart/Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_the_alerts_are_those_of_the_documents() -> None:
    alerts = yaml.safe_load((CHART / "alerts.yaml").read_text())
    named = {name for each in alerts for name in METRIC.findall(each["expr"])}
    [line] = [
        line for line in (ROOT / "docs/operating.md").read_text().splitlines() if line.startswith("Alert on:")
    ]
    assert named == set(METRIC.findall(line))


def test_the_schema_describes_every_value_and_no_other() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())

    def check(path: str, values: dict[str, Any], part: dict[str, Any]) -> None:
        part = schema["definitions"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
        if "properties" not in part:
            return
        assert part["additionalProperties"] is False, path
        # Helm itself sets `global`.
        assert values.keys() == part["properties"].keys() - {"global"}, path
        for key, value in values.items():
            if isinstance(value, dict):
                check(f"{path}.{key}", value, part["properties"][key])

    check("", yaml.safe_load((CHART / "values.yaml").read_text()), schema)
