"""Authorization: RBAC, node authorization, escalation and impersonation rules."""
