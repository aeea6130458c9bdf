"""Mutation testing: inserts small faults into a room's code, one at a time, which its unit tests must detect."""
