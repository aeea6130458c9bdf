"""The limit on waiting for caches, and the error that names those that are not filled."""

import asyncio

import pytest

from vcsync.kube.resources import PODS, SECRETS
from vcsync.tenancy.caches import CachesNotSynced, wait_for_caches


class Followed:
    """A reflector that has read its collection after some seconds."""

    def __init__(self, resource, seconds, last_error=None):
        self.resource = resource
        self.last_error = last_error
        self._seconds = seconds
        self.synced = False

    async def wait_synced(self):
        await asyncio.sleep(self._seconds)
        self.synced = True

    def statistics(self):
        return self


def test_caches_that_are_read_in_time_are_waited_for(in_virtual_time):
    followed = [Followed(PODS, 5), Followed(SECRETS, 20)]

    in_virtual_time(wait_for_caches(followed, 30))

    assert all(each.synced for each in followed)


def test_resources_that_could_not_be_read_are_named(in_virtual_time):
    with pytest.raises(CachesNotSynced, match=r"within 30 s: secrets$"):
        in_virtual_time(wait_for_caches([Followed(PODS, 5), Followed(SECRETS, 1000)], 30))


def test_the_last_error_is_named_with_the_resource(in_virtual_time):
    refused = Followed(SECRETS, 1000, "secrets is forbidden")
    with pytest.raises(CachesNotSynced, match=r"within 30 s: secrets \(secrets is forbidden\)$"):
        in_virtual_time(wait_for_caches([Followed(PODS, 5), refused], 30))
