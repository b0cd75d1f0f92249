"""Alembic's entry: runs the migrations on the connection that it is given."""

from __future__ import annotations

from alembic import context

from mercury.storage.sql.schema import METADATA
from mercury.storage.sql.versions import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
