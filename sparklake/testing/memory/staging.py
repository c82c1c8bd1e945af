"""The staged records of a repository's branches, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sparklake.errors import RaceLostError, WriteFinishedError
from sparklake.graveler.guards import Action
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.ports import BranchState, Layer, LayerCut, LayerKind, WriteState
from sparklake.graveler.ports.once import OnceRecord
from sparklake.graveler.records import Record
from sparklake.testing.memory.state import StateView


class MemoryStaging(StateView):
    def put(
        self,
        branch: str,
        records: Sequence[Record],
        *,
        fence: int | None,
        once: OnceRecord | None = None,
    ) -> None:
        state = self._state
        with state.changing(once):
            layers = self._open(branch, Action.STAGE, fence).layers
            if not records:
                return
            if layers and not layers[0].sealed:
                top = layers[0]
            else:
                top = self._push(
                    branch, Layer(next(state.next_layer), LayerKind.ROWS, sealed=False)
                )
                state.rows[top.id] = {}
            state.rows[top.id].update(records)

    def add_run(
        self,
        branch: str,
        meta_range_id: MetaRangeId,
        expected: BranchState | None = None,
        write: str | None = None,
        *,
        fence: int | None,
        once: OnceRecord | None = None,
    ) -> Layer:
        with self._state.changing(once):
            state = self._open(branch, Action.STAGE, fence)
            if expected is not None and state.content != expected.content:
                raise RaceLostError(f"branch {branch!r} has changed: read it again")
            if write is not None:
                self._end(write, branch)
            self.seal(branch)
            number = next(self._state.next_layer)
            run = Layer(number, LayerKind.RUN, sealed=True, meta_range_id=meta_range_id)
            return self._push(branch, run)

    def seal(self, branch: str, action: Action | None = None) -> BranchState:
        with self._state.lock:
            state = self._open(branch, action)
            sealed = tuple(replace(layer, sealed=True) for layer in state.layers)
            self._state.branches[branch] = replace(state, layers=sealed)
            return self._state.seen(self._state.branches[branch], force=self._force)

    def rows(self, layer_id: int, *prefixes: bytes) -> Iterator[Record]:
        with self._state.lock:
            records = sorted(self._state.layer_rows(layer_id).items())
        yield from (record for record in records if record[0].startswith(prefixes or b""))

    def row(self, layer_id: int, key: bytes) -> Record | None:
        with self._state.lock:
            value = self._state.layer_rows(layer_id).get(key)
        return None if value is None else (key, value)

    def count(self, layer_id: int) -> int:
        with self._state.lock:
            return len(self._state.layer_rows(layer_id))

    def reset(self, branch: str, *, once: OnceRecord | None = None) -> None:
        with self._state.changing(once):
            state = self._open(branch, Action.RESET)
            layer_ids = {layer.id for layer in state.layers}
            self._state.branches[branch] = self._state.drop_layers(state, layer_ids)

    def drop(
        self,
        branch: str,
        expected: BranchState,
        cut: LayerCut,
        run: MetaRangeId | None = None,
        *,
        fence: int | None,
        once: OnceRecord | None = None,
    ) -> None:
        state = self._state
        with state.changing(once):
            now = self._open(branch, Action.STAGE if run else Action.RESET, fence)
            if now.content != expected.content:
                raise RaceLostError(f"branch {branch!r} has changed: read it again")
            state.cut_layers(now, {layer.id for layer in now.layers}, cut)
            if run:
                self.add_run(branch, run, fence=fence)

    def _open(self, branch: str, action: Action | None, fence: int | None = None) -> BranchState:
        return self._state.open_branch(branch, action, force=self._force, fence=fence)

    def _end(self, write: str, branch: str) -> None:
        entry = self._state.writes.get(write)
        if entry is None or (entry.branch, entry.state) != (branch, WriteState.OPEN):
            raise WriteFinishedError.of(write, branch)
        self._state.writes[write] = replace(entry, state=WriteState.DONE)

    def _push(self, branch: str, layer: Layer) -> Layer:
        state = self._state.branch(branch)
        self._state.branches[branch] = replace(state, layers=(layer, *state.layers))
        return layer
