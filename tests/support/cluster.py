"""One Spark cluster for all tests of a run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.cluster import Cluster, running_cluster
from tests.support.java_classes import SHORT_LIVED


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with running_cluster(folder, java_options=SHORT_LIVED) as running:
        yield running
