"""The contract again, on Spark Connect, in another process, because none can hold both.

`make test-system` runs one scenario and one test for each part of Spark's API that the package
calls: the tests with the marker `connect`. The others call the same parts in longer sequences, and
`make test-slow` runs them. `make test-iceberg` does the same for writes to Iceberg tables.
"""

from __future__ import annotations

import pytest

from tests.support.spark import check_on_connect


@pytest.mark.spark
@pytest.mark.timeout(5400)
@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param("connect", marks=pytest.mark.system),
        pytest.param("not connect", marks=pytest.mark.exhaustive),
    ],
)
def test_the_contract_holds_on_spark_connect(chosen: str) -> None:
    check_on_connect("tests/spark/contract", chosen)
