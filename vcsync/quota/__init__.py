"""The usage of objects for ResourceQuotas, which admission charges and the quota controller recalculates. Pure."""
