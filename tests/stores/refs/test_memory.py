"""The ref store in memory keeps the contract."""

from __future__ import annotations

import pytest

from sparklake.graveler.ports import RefStore
from sparklake.testing.memory import MemoryRefStore
from tests.stores.refs.contract import RefStoreContract
from tests.stores.refs.once_contract import OnceContract
from tests.stores.refs.writes_contract import WritesContract


class TestMemoryRefStore(RefStoreContract, WritesContract, OnceContract):
    @pytest.fixture
    def store(self) -> RefStore:
        return MemoryRefStore()
