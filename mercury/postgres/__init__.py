"""What is PostgreSQL's own: the embedded server."""
