"""Rules on what keeps work apart, or forbids it: transactions, protection, read-only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st
from hypothesis.stateful import rule

from sparklake.errors import AddressConflictError, TransactionError
from tests.scenarios.model.commits import CommitRules
from tests.scenarios.model.machine import (
    BRANCHES,
    TAGS,
    changes,
    choices,
    contents,
    datas,
    paths,
    prefixes,
    resolutions,
    terms,
)
from tests.scenarios.model.model_transactions import Transacted
from tests.scenarios.model.refs import RefRules
from tests.scenarios.model.staging import StagingRules
from tests.scenarios.model.strategies import Resolution
from tests.scenarios.model.trees import Changes

ACTIONS = ["stage", "commit", "reset", "delete"]
PATTERNS = ["main", "dev*", "t?pic", "*", "d", "_tx-*"]
flags = st.booleans()

WRITES: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "put": {"path": paths, "content": contents, "as_file": flags},
    "delete": {"path": paths},
    "remove": {"path": st.sampled_from(["a", "b"]), "deep": flags},
    "transfer": {"removing": flags, "force": flags},
    "restore": {"changes": changes, "paths": choices},
    "stage_and_reset_a_part": {
        "changes": changes,
        "parts": st.just([("prefix", "a")]),
        "bulk": flags,
    },
    "commit_a_part": {"changes": changes, "paths": choices, "allow_empty": flags},
    "commit": {"allow_empty": flags},
    "import_objects": {"number": st.integers(0, 2), "folder": st.sampled_from(["", "a"])},
    "merge": {"terms": terms},
    "rebase": {"resolution": resolutions},
    "replay": {
        "undo": flags,
        "count": st.just(1),
        "number": st.none(),
        "resolution": resolutions,
        "allow_empty": flags,
    },
    "move": {"back": flags, "force": flags, "expects": st.just("nothing")},
    "drop": {"what": st.sampled_from(["discard", "reset", "prefix"]), "prefix": prefixes},
    "create_branch": {"name": st.sampled_from(BRANCHES), "hidden": flags},
    "tag": {"delete": flags, "name": st.sampled_from(TAGS)},
    "transaction": {
        "work": changes,
        "meanwhile": st.none(),
        "stops": flags,
        "resolution": resolutions,
    },
}
"""Rules by their names, and what to draw for them."""


class _StopError(Exception):
    """Raised by the body of a transaction."""


class GuardRules(RefRules, StagingRules, CommitRules):
    @rule(
        blocked=st.none() | st.sets(st.sampled_from(ACTIONS), min_size=1),
        pattern=st.sampled_from(PATTERNS),
        verbs=st.lists(st.sampled_from(sorted(WRITES)), min_size=1, max_size=4),
        data=datas,
    )
    def forbid(
        self, blocked: set[str] | None, pattern: str, verbs: list[str], data: st.DataObject
    ) -> None:
        """Try some verbs under a rule of protection, or in a read-only repository."""
        if blocked is None:
            self.repo.settings.set_read_only()
            self.model.read_only = True
        else:
            self.repo.settings.protect(pattern, block=blocked)
            self.model.protection = {pattern: blocked}
        for name in verbs:
            words = {each: data.draw(value) for each, value in WRITES[name].items()}
            verb: Callable[..., None] = getattr(self, name)
            verb(**words, data=data)
        if blocked is None:
            self.repo.settings.set_read_only(False)
            self.model.read_only = False
        else:
            self.repo.settings.unprotect(pattern)
            self.model.protection = {}

    @rule(
        work=changes,
        meanwhile=st.none() | changes,
        stops=st.sampled_from([False, False, True]),
        resolution=resolutions,
        data=datas,
    )
    def transaction(
        self,
        work: Changes,
        meanwhile: Changes | None,
        stops: bool,
        resolution: Resolution,
        data: st.DataObject,
    ) -> None:
        """Works on a hidden branch, while the target goes on or does not."""
        name = self.branch(data)

        def real() -> Transacted:
            branch, made = self.repo.branch(name), Transacted()
            begun = branch.transaction("work", strategy=resolution.strategy, rules=resolution.rules)
            try:
                with begun as hidden:
                    made.name = hidden.name
                    hidden.stage(self.table(work))
                    if meanwhile is not None:
                        branch.stage(self.table(meanwhile))
                        made.meanwhile = branch.commit("meanwhile", allow_empty=True)
                    if stops:
                        raise _StopError
            except _StopError:
                pass
            except AddressConflictError:
                reject()  # Dicts know no addresses.
            except TransactionError as error:
                if isinstance(error.__cause__, AddressConflictError):
                    reject()
                made.has_failed = error.branch == made.name
            made.head = branch.head
            kept = [each.head for each in self.repo.branches(hidden=True) if each.name == made.name]
            # A transaction without changes does not move the branch, whose head may be the first.
            before = made.head.parents[-1] if made.head.parents else made.head.id
            made.work = kept[0] if kept else self.repo.resolve(before)
            return made

        self.both(
            real,
            lambda made: self.model.transaction(name, work, meanwhile, resolution, made, stops),
            compare=False,
        )
