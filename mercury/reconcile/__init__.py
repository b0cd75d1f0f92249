"""The reconciler: compares a client's table with a server's, and says for every row what became of it.

PySpark is imported only when something is compared.
"""

from __future__ import annotations

from mercury.reconcile.config import Column, Config, Response, SparkSettings, Table
from mercury.reconcile.kinds import Kind
from mercury.reconcile.places import Where
from mercury.reconcile.reading import make_config, read_file
from mercury.reconcile.result import Difference, Result
from mercury.reconcile.run import reconcile
from mercury.reconcile.verdicts import Verdict

__all__ = [
    "Column",
    "Config",
    "Difference",
    "Kind",
    "Response",
    "Result",
    "SparkSettings",
    "Table",
    "Verdict",
    "Where",
    "make_config",
    "read_file",
    "reconcile",
]
