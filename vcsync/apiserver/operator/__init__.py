"""What an operator does with tenants: create, rotate, sign for, export and delete them."""
