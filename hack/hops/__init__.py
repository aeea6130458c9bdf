"""Measures the milliseconds of one Pod at rest, hop by hop on its way through a syncer, in `vcsync up`.

* `traced.py` runs `vcsync up` and notes when the syncers receive, plan, send and get answers;
* `path.py` puts these times together to the hops of each Pod, and to a table: pure;
* `__main__.py` creates Pods one at a time, in turns with another version.
"""
