"""What objects count against ResourceQuotas: shared by the admission that charges and the controller that counts. Pure."""
