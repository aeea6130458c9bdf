"""The composition root of the API server: builds every part and connects them."""
