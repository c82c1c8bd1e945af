"""Merges of Delta tables as the command tells of them."""

from __future__ import annotations

import io
import json
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq

from sparklake.metadata.delta.vectors import new_vectors
from sparklake.metadata.vectors.bitmaps import positions
from tests.cli.running import Scene, ok, run, said
from tests.support.written_tables import Action, add, created, remove

LOG = "tables/t/_delta_log/"


def commit(version: int, *actions: Action) -> dict[str, str | None]:
    return {f"{LOG}{version:020}.json": "\n".join(map(json.dumps, actions))}


def test_a_side_is_taken_where_logs_do_not_unite(scene: Scene) -> None:
    scene.commit("main", {**commit(0, *created("t"), add("a")), "tables/t/a": "a"})
    dev, main = scene.branch("dev"), scene.uri("main")
    for branch in ("main", "dev"):
        log = commit(1, remove("a"), add(branch))
        scene.commit(branch, {**log, f"tables/t/{branch}": branch})
    refused = run("merge", dev, main)
    assert refused.code == 3
    assert "choose a strategy, such as source-wins or dest-wins" in refused.err
    rule = ("--rule", "tables/**=source-wins")
    shown = ok("merge", dev, main, "--dry-run", *rule).splitlines()
    assert "taken as a whole: tables tables/t (source-wins)" in shown
    lost = "1 commit of dest (added 1 file with unknown rows, removed 1 file)"
    assert f"dropped: table tables/t: {lost}" in shown
    assert f"source-wins drops {lost}" in refused.err
    assert said("merge", dev, main, "--dry-run", *rule)["table_winners"] == {
        "tables/t": "source-wins"
    }
    made = said("merge", dev, main, *rule)
    assert made["metadata"]["sparklake.merge.winners"] == "tables/t=source-wins"
    assert made["metadata"]["sparklake.merge.dropped"] == f"tables/t: {lost}"
    again = ok("hard-reset", main, f"{main}~1", "--yes") and ok("merge", dev, main, *rule)
    assert f"    dropped: tables/t: {lost}" in again.splitlines()


def test_what_is_united_is_told(scene: Scene) -> None:
    scene.commit("main", commit(0, *created("t")))
    dev, main = scene.branch("dev"), scene.uri("main")
    for branch in ("main", "dev"):
        log = commit(1, {"commitInfo": {"operation": "WRITE"}}, add(branch))
        scene.commit(branch, {**log, f"tables/t/{branch}": branch})
    assert "united: tables tables/t" in ok("merge", dev, main, "--dry-run").splitlines()
    assert said("merge", dev, main, "--dry-run")["table_winners"] == {}


def test_other_types_on_both_sides_stop_a_merge(scene: Scene) -> None:
    scene.commit("main", {"x": "x"})
    dev, main = scene.branch("dev"), scene.uri("main")
    for ref, value in (("dev", "1.50"), ("main", 1.5)):
        sink = io.BytesIO()
        pq.write_table(pa.table({"price": [value]}), sink)
        ok("put", "-", scene.uri(ref, f"tables/t/{ref}.parquet"), stdin=sink.getvalue())
        ok("commit", scene.uri(ref), "-m", "rows")
    words = "with different types in source and dest: price (string, double)"
    refused = run("merge", dev, main)
    assert (refused.code, words in refused.err) == (3, True)
    shown = run("merge", dev, main, "--dry-run")
    assert words in shown.out.decode() + shown.err
    assert said("merge", dev, main, "--dry-run", "--no-schema-check")["unresolved"] == 0
    ok("merge", dev, main, "--no-schema-check")
    assert "tables/t/dev.parquet" in scene.paths("main")


def test_rows_that_both_sides_deleted_are_shown(scene: Scene) -> None:
    ([vector], _) = new_vectors([positions(1)])
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": [10, 11], "day": [date(2026, 1, 1)] * 2}), sink)
    ok("put", "-", scene.uri("main", "tables/t/a"), stdin=sink.getvalue())
    stats = {"stats": '{"numRecords":2}'}
    scene.commit("main", commit(0, *created("t"), add("a", **stats)))
    dev, main = scene.branch("dev"), scene.uri("main")
    for branch in ("main", "dev"):
        info = {"commitInfo": {"operation": "DELETE", "timestamp": branch}}
        marked = add("a", deletionVector=vector, **stats)
        scene.commit(branch, commit(1, info, remove("a"), marked))
    plain = run("merge", dev, main)
    assert plain.code == 3
    assert "the same rows: a at position 1" in plain.err
    assert "2026-01-01" not in plain.out.decode() + plain.err
    row = {"id": 11, "day": "2026-01-01"}
    for verb in (("merge", dev, main), ("cherry-pick", main, dev)):
        shown = run(*verb, "--show-rows")
        assert shown.code == 3
        assert json.dumps(row) in shown.out.decode()
        (found,) = run("--output", "json", *verb, "--show-rows").json["rows"]
        assert found == {"table": "tables/t", "path": "tables/t/a", "position": 1, "row": row}
