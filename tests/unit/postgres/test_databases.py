"""The URL of a server's database."""

from __future__ import annotations

import pytest

from mercury.errors import ConfigurationError
from mercury.postgres.databases import Databases


@pytest.mark.parametrize("url", ["postgresql://me:s3cret@db:54e2/shop", "postgresql//me:s3cret@db/shop"])
def test_mistyped_url_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigurationError, match="not a database's URL") as caught:
        Databases(url)
    assert "s3cret" not in str(caught.value)
