"""The controller that makes ResourceClaims of templates."""
