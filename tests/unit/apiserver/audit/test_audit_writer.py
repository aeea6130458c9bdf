"""The queue of audit events: limited, never blocking, and written at the end."""

import json

import pytest

from vcsync.apiserver.audit import writer as writers
from vcsync.apiserver.audit.events import Moment
from vcsync.apiserver.audit.files import Bounds, Files
from vcsync.apiserver.audit.service import AuditLog, AuditSettings
from vcsync.apiserver.audit.writer import Writer
from vcsync.apiserver.request.audit_trail import COMPLETE, Begun, Level, Trail


def moment(log="acme", audit_id="1", cost=100):
    return Moment(Trail(Level.METADATA, Begun(log, audit_id)), COMPLETE, 0, {}, cost)


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path / "logs", Bounds(), lambda: 0.0)


@pytest.fixture
def writer(files):
    return Writer(files, 2**20, lambda: 0.0)


def ids(tmp_path, log):
    return [json.loads(each)["auditID"] for each in (tmp_path / f"logs/{log}.log").read_bytes().splitlines()]


def test_queued_events_are_written_in_order_at_the_end(writer, tmp_path):
    writer.start()
    for number in range(200):
        writer.put(moment("acme" if number % 2 else "umbrella", str(number)))
    writer.stop()
    assert ids(tmp_path, "acme") == [str(number) for number in range(1, 200, 2)]
    assert ids(tmp_path, "umbrella") == [str(number) for number in range(0, 200, 2)]
    assert (writer.written, writer.dropped) == (200, 0)


def test_events_beyond_a_full_queue_are_dropped_and_counted(writer, monkeypatch, tmp_path):
    monkeypatch.setattr(writers, "MAX_EVENTS", 3)
    for number in range(5):
        writer.put(moment(audit_id=str(number)))
    assert writer.dropped == 2
    writer.start()
    writer.stop()
    assert ids(tmp_path, "acme") == ["0", "1", "2"]
    writer.put(moment())
    assert writer.dropped == 2


def test_the_size_of_queued_bodies_is_limited(writer, monkeypatch):
    monkeypatch.setattr(writers, "MAX_BYTES", 1000)
    for _ in range(5):
        writer.put(moment(cost=400))
    assert writer.dropped == 3


def test_a_failing_disk_loses_events_only(files, writer, monkeypatch, tmp_path):
    append = files.append

    def refuse(log, lines):
        if log == "acme":
            raise OSError("no space left on device")
        append(log, lines)

    monkeypatch.setattr(files, "append", refuse)
    writer.put(moment("acme"))
    writer.put(moment("umbrella"))
    writer.start()
    writer.stop()
    assert (writer.written, writer.dropped) == (1, 1)
    assert ids(tmp_path, "umbrella") == ["1"]


def test_an_event_that_cannot_be_encoded_does_not_end_the_log(writer, tmp_path):
    writer.put(moment(audit_id=object()))
    writer.put(moment(audit_id="next"))
    writer.start()
    writer.stop()
    assert ids(tmp_path, "acme") == ["next"]
    assert writer.dropped == 1


def test_metrics_have_the_names_of_kube_apiserver(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
    log = AuditLog(AuditSettings(policy, tmp_path / "logs"))
    log.start()
    log.stop()
    shown = {
        (sample.name, *sample.labels.values()): sample.value
        for each in log.collect()
        for sample in each.samples
    }
    assert shown["apiserver_audit_event_total",] == 0
    assert shown["apiserver_audit_error_total", "log"] == 0
    assert shown["apiserver_audit_level_total", "Metadata"] == 0
