from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark import cloudpickle

from tests.support import runner_contract


@pytest.fixture(scope="module", autouse=True)
def _bodies_of_tests_are_shipped(request: pytest.FixtureRequest) -> Iterator[None]:
    """Ships the task bodies of tests whole: workers cannot import them."""
    for module in (request.module, runner_contract):
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in (request.module, runner_contract):
        cloudpickle.unregister_pickle_by_value(module)
