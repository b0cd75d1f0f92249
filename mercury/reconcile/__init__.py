"""The reconciler: compares a client's table with a server's, and gives a verdict for every row.

PySpark is imported only when `reconcile` is called.
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
