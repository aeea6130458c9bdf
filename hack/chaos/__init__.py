"""Churn by several tenants while roles are killed and connections are cut, then an audit of what is left."""

from hack.chaos.run import Outcome, Weather, storm

__all__ = ["Outcome", "Weather", "storm"]
