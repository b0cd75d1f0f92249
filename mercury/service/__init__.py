"""What hosts: services of typed functions, the SOAP endpoint, and the FastAPI application around them."""
