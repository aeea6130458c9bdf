"""Metering: what each tenant uses of the API server, by the hour, in the store."""
