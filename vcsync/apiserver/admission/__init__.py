"""Admission: plug-ins, policies, webhooks and quotas that change or refuse writes."""
