"""An embedded PostgreSQL server, for tests and demonstrations."""
