"""Two-phase commit over PostgreSQL's prepared transactions, and its recovery."""
