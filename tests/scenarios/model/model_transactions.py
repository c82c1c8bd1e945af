"""Transactions, in plain dicts: the steps that they are made of."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from sparklake import Commit
from sparklake.errors import DirtyBranchError, MergeConflictError, NoChangesError
from tests.scenarios.model.model_commits import CommitsModel, MergeTerms
from tests.scenarios.model.strategies import Resolution
from tests.scenarios.model.trees import Changes


@dataclass
class Transacted:
    """What a transaction has come to."""

    name: str = ""
    meanwhile: Commit | None = None
    work: Commit | None = None
    head: Commit | None = None
    has_failed: bool = False


class TransactionsModel(CommitsModel):
    def transaction(
        self,
        branch: str,
        work: Changes,
        meanwhile: Changes | None,
        resolution: Resolution,
        made: Transacted | None,
        stops: bool,
    ) -> None:
        start = self.open(branch)
        if self.staged[branch]:
            raise DirtyBranchError
        assert made is not None
        self.create_branch(made.name, branch, hidden=True)
        self.stage(made.name, work)
        if meanwhile is not None:
            self.stage(branch, meanwhile)
            self.commit(branch, made.meanwhile, allow_empty=True)
        if stops:
            assert not made.has_failed
            if not self.staged[made.name]:
                self.delete_branch(made.name)
            return
        with suppress(NoChangesError):
            self.commit(made.name, made.work, allow_empty=False)
        if self.heads[made.name] != start:
            terms = MergeTerms(resolution)
            try:
                with suppress(NoChangesError):
                    self.merge(made.name, branch, terms, made.head)
            except MergeConflictError:
                assert made.has_failed
                return
        assert not made.has_failed
        self.delete_branch(made.name)
