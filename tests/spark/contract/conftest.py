from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark import cloudpickle


@pytest.fixture(scope="module", autouse=True)
def _bodies_of_tests_are_shipped(request: pytest.FixtureRequest) -> Iterator[None]:
    """Ships the task bodies of a test module whole: workers cannot import it."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)
