"""The store in a SQL database: SQLite or PostgreSQL."""

from mercury.storage.sql.store import SqlStore

__all__ = ["SqlStore"]
