"""Access reviews, TokenReview and SelfSubjectReview."""
