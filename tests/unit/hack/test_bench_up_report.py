"""The lines of the benchmark of `vcsync up`: ratios, aims, and missing measurements."""

from hack.bench.load import Latency
from hack.bench_up import report
from hack.bench_up.report import Results
from hack.bench_up.runs import Burst


def burst(pods: int, seconds: float, cpu: float) -> Burst:
    return Burst(pods, seconds, cpu, Latency(100.0, 200.0, 300.0, pods))


def line(results: Results, name: str) -> report.Line:
    return next(each for each in report.lines(results) if each[0].startswith(name))


def test_missing_measurements_have_no_line():
    assert len(report.lines(Results(tenants=3))) == 2


def test_lines_compare_tenants_with_super_clusters_used_directly():
    results = Results(tenants=3, pods=burst(600, 2.0, 6.0), direct=burst(600, 1.0, 1.5))
    assert line(results, "600 Pods") == ("600 Pods (Pods/s)", "300", "600", "0.50", ">= 300 met")
    assert line(results, "CPU")[1:4] == ("10", "2.5", "4.00")


def test_without_the_direct_side_there_is_no_ratio():
    found = line(Results(tenants=3, pods=burst(100, 1.0, 1.0)), "100 Pods")
    assert found[2:] == ("", "", ">= 300 missed")


def test_the_quiet_tenant_is_judged_by_its_own_wait_alone():
    alone, beside = Latency(50.0, 100.0, 100.0, 10), Latency(60.0, 125.0, 130.0, 10)
    found = [
        each for each in report.lines(Results(tenants=3, alone=alone, beside=beside)) if "beside" in each[0]
    ]
    assert found[1][3:] == ("1.25", "<= 1.2 missed")


def test_an_idle_process_is_judged_by_a_share_of_a_cpu():
    assert line(Results(tenants=3, idle=0.009), "3 idle")[1:] == ("0.90", "", "", "< 1 met")


def test_lines_are_aligned_in_columns():
    text = report.table(report.lines(Results(tenants=3, pods=burst(100, 1.0, 1.0))))
    assert len({each.index("tenants") for each in text.splitlines()[:1]}) == 1
    assert not any(each.endswith(" ") for each in text.splitlines())
