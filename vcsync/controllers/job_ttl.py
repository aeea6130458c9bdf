"""Jobs that are deleted some time after they ended. Pure.

Behaviour: Kubernetes' `pkg/controller/ttlafterfinished`.
"""

from vcsync.controllers import pods
from vcsync.controllers.job_objects import ended, read_job
from vcsync.controllers.mirror import Key
from vcsync.controllers.plan import NOTHING, Controller, Delete, Look, Plan, Watch
from vcsync.controllers.waking import own
from vcsync.kube.resources import JOBS


def plan(look: Look, key: Key) -> Plan:
    """Delete a Job, its Pods first, once it has been over for as long as it asks."""
    envelope = look.of[JOBS].get(*key)
    if envelope is None or envelope.deleting:
        return NOTHING
    job = read_job(envelope)
    end, life = ended(job.status), job.spec.ttl_seconds_after_finished
    if end is None or life is None or not end.last_transition_time:
        return NOTHING
    left = life - (look.now - pods.moment(end.last_transition_time)).total_seconds()
    if left > 0:
        return Plan(again=left)
    return Plan([[Delete(JOBS, key.namespace, key.name, envelope.uid, propagation="Foreground")]])


TTL_AFTER_FINISHED = Controller("ttl-after-finished-controller", (Watch(JOBS, own),), plan)
