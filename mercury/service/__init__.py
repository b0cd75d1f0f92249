"""The HTTP server side: services of typed functions, the SOAP endpoint, and the FastAPI application around them."""
