"""Deletion of Jobs some time after their end. Pure.

Behaviour: Kubernetes' `pkg/controller/ttlafterfinished`.
"""

from vcsync.controllers.framework import pods
from vcsync.controllers.framework.event_handlers import own
from vcsync.controllers.framework.mirror import Key
from vcsync.controllers.framework.plan import NOTHING, Controller, Delete, Plan, View, Watch
from vcsync.controllers.job.objects import ended, read_job
from vcsync.kube.resources import JOBS


def plan(view: View, key: Key) -> Plan:
    """Delete a Job, its Pods first, when its time to live has passed."""
    envelope = view.of[JOBS].get(*key)
    if envelope is None or envelope.deleting:
        return NOTHING
    job = read_job(envelope)
    end, life = ended(job.status), job.spec.ttl_seconds_after_finished
    if end is None or life is None or not end.last_transition_time:
        return NOTHING
    left = life - (view.now - pods.moment(end.last_transition_time)).total_seconds()
    if left > 0:
        return Plan(again=left)
    return Plan([[Delete(JOBS, key.namespace, key.name, envelope.uid, propagation="Foreground")]])


TTL_AFTER_FINISHED = Controller("ttl-after-finished-controller", (Watch(JOBS, own),), plan)
