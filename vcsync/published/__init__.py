"""Kinds of classes that operators publish to tenants: what is told of a super cluster's, and what tenants see. Pure."""
