"""`vcsync usage`: sums, costs and output formats."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.usage.amounts import GIB, PRICES, Hour, by_step, costs
from vcsync.cli.usage.opencost import allocations
from vcsync.cli.usage.prices import read_prices
from vcsync.cli.usage.rendering import rendered

MIDNIGHT = datetime(2026, 11, 25, tzinfo=UTC)


def hour(number: int, tenant: str = "acme", uid: str = "u1", **used: int) -> Hour:
    return Hour(tenant, uid, MIDNIGHT + timedelta(hours=number), **used)


HOURS = st.lists(
    st.builds(
        lambda tenant, number, reads, objects: hour(number, tenant, tenant, reads=reads, objects=objects),
        st.sampled_from(["acme", "beta"]),
        st.integers(-50, 50),
        st.integers(0, 10**12),
        st.integers(0, 10**6),
    ),
    unique_by=lambda each: (each.tenant, each.hour),
)


@given(HOURS, st.sampled_from(["hour", "day", "all"]))
def test_every_hour_is_part_of_exactly_one_interval(hours: list[Hour], step) -> None:
    intervals = by_step(hours, step)
    key = lambda each: (each.tenant, each.hour)  # noqa: E731 - one expression, used twice
    assert sorted((each for found in intervals for each in found.hours), key=key) == sorted(hours, key=key)
    for found in intervals:
        assert {each.tenant for each in found.hours} == {found.tenant}
        assert found.begin == found.hours[0].hour
        assert found.end == found.hours[-1].hour + timedelta(hours=1)
        if step == "day":
            assert len({each.hour.date() for each in found.hours}) == 1
    assert sum(found.reads for found in intervals) == sum(each.reads for each in hours)


def test_requests_add_up_and_storage_is_the_peak_of_an_interval_and_its_hours_are_charged() -> None:
    [used] = by_step(
        [hour(0, reads=1, objects=10, storage_bytes=GIB), hour(1, reads=2, objects=4, storage_bytes=3 * GIB)],
        "all",
    )
    assert (used.reads, used.objects, used.storage_bytes) == (3, 10, 3 * GIB)
    prices = {"reads": Decimal("0.1"), "objects": Decimal(2), "storage": Decimal(5)}
    assert costs(used, prices) == {"reads": Decimal("0.3"), "objects": 28, "storage": 20}


def test_every_price_has_its_unit() -> None:
    [used] = by_step(
        [
            hour(
                0,
                reads=1,
                writes=1,
                bytes_in=GIB,
                bytes_out=GIB,
                watch_milliseconds=3_600_000,
                objects=1,
                storage_bytes=GIB,
            )
        ],
        "hour",
    )
    assert costs(used, dict.fromkeys(PRICES, Decimal(7))) == dict.fromkeys(PRICES, 7)


def test_a_later_tenant_of_the_same_name_is_apart() -> None:
    used = by_step([hour(0, uid="u1", reads=1), hour(1, uid="u2", reads=2)], "all")
    assert [(each.uid, each.reads) for each in used] == [("u1", 1), ("u2", 2)]


USED = by_step([hour(0, reads=3, writes=1, bytes_out=10, watch_milliseconds=1500, objects=7)], "all")


def test_a_table_a_csv_and_json_show_the_same() -> None:
    prices = {"reads": Decimal("0.0000005"), "writes": Decimal("0.25")}
    header, row = rendered(USED, "table", prices).splitlines()
    assert " ".join(header.split()) == (
        "TENANT FROM TO READS WRITES BYTES IN BYTES OUT WATCH SECONDS OBJECTS STORAGE BYTES COST"
    )
    assert " ".join(row.split()) == (
        "acme 2026-11-25T00:00:00Z 2026-11-25T01:00:00Z 3 1 0 10 1.500 7 0 0.250002"
    )
    assert rendered(USED, "csv", prices) == (
        "tenant,uid,begin,end,reads,writes,bytesIn,bytesOut,watchSeconds,objects,storageBytes,cost\n"
        "acme,u1,2026-11-25T00:00:00Z,2026-11-25T01:00:00Z,3,1,0,10,1.500,7,0,0.250002\n"
    )
    [shown] = json.loads(rendered(USED, "json", prices))["items"]
    assert (shown["reads"], shown["watchSeconds"], shown["cost"]) == (3, "1.500", "0.250002")


def test_no_cost_is_shown_without_prices() -> None:
    assert "COST" not in rendered(USED, "table", None)
    assert "cost" not in rendered(USED, "csv", None)
    assert "cost" not in rendered(USED, "json", None)


def test_allocations_have_the_shape_of_opencost() -> None:
    hours = [
        hour(number, tenant, writes=2, bytes_out=GIB) for number in (0, 1) for tenant in ("acme", "beta")
    ]
    answer = allocations(by_step(hours, "hour"), {"writes": Decimal(3), "bytesOut": Decimal(5)})
    assert answer["code"] == 200
    assert [sorted(window) for window in answer["data"]] == [["acme", "beta"], ["acme", "beta"]]
    found = answer["data"][1]["beta"]
    assert found["name"] == "beta"
    assert found["window"] == {"start": "2026-11-25T01:00:00Z", "end": "2026-11-25T02:00:00Z"}
    assert (found["start"], found["end"], found["minutes"]) == (*found["window"].values(), 60)
    assert (found["networkTransferBytes"], found["networkCost"]) == (GIB, 5)
    assert (found["externalCost"], found["totalCost"]) == (6, 11)
    assert found["cpuCoreHours"] == found["ramByteHours"] == 0


def test_prices_are_read_as_decimal_numbers(tmp_path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text("reads: 0.1\nstorage: '0.30'\n")
    assert read_prices(file) == {"reads": Decimal("0.1"), "storage": Decimal("0.30")}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("reeds: 1", "'reeds' has no price; names are reads, writes"),
        ("reads: much", "reads: give a decimal number"),
        ("reads: -1", "reads: give a decimal number"),
        ("reads: NaN", "reads: give a decimal number"),
        ("reads: [1]", "reads: give a decimal number"),
        ("- reads", "give prices by name"),
        ("reads: {", "cannot be read"),
    ],
)
def test_malformed_prices_are_refused(tmp_path, text: str, said: str) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(text)
    with pytest.raises(WrongInputError, match=said):
        read_prices(file)
