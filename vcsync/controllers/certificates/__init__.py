"""Approval, signing and cleaning of CertificateSigningRequests."""
