"""Protobuf messages declared at run time."""

from __future__ import annotations

import gc

from sparklake.graveler.messages import EntryMessage, ProtectionRulesMessage, RetentionRulesMessage


def test_nested_messages_survive_a_garbage_collection() -> None:
    # protobuf 4.24 forgets the classes that nobody refers to, and then crashes the process.
    gc.collect()
    entry = EntryMessage(address="a")
    entry.last_modified.seconds = 7
    entry.metadata["k"] = "v"
    read = EntryMessage.FromString(entry.SerializeToString(deterministic=True))
    assert (read.last_modified.seconds, dict(read.metadata)) == (7, {"k": "v"})

    rules = RetentionRulesMessage()
    rules.branch_retention_days.add(key="main", value=7)
    read = RetentionRulesMessage.FromString(rules.SerializeToString())
    assert [(each.key, each.value) for each in read.branch_retention_days] == [("main", 7)]

    protection = ProtectionRulesMessage()
    pair = protection.branch_pattern_to_blocked_actions.add(key="main")
    pair.value.value.append(1)
    read = ProtectionRulesMessage.FromString(protection.SerializeToString())
    assert list(read.branch_pattern_to_blocked_actions[0].value.value) == [1]
