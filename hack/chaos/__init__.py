"""Churn by several tenants while roles are killed and connections are cut, followed by an audit."""

from hack.chaos.run import Outcome, Weather, storm

__all__ = ["Outcome", "Weather", "storm"]
