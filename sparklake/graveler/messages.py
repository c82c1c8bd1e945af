"""lakeFS's protobuf messages in tables, declared without generated code.

Generated modules depend on the protobuf release that made them. Descriptors built at import work
with every supported runtime.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

_Field = descriptor_pb2.FieldDescriptorProto
_TIMESTAMP = ".google.protobuf.Timestamp"


def _field(name: str, number: int, kind: Any, type_name: str = "", *, many: bool = False) -> Any:
    label = _Field.LABEL_REPEATED if many else _Field.LABEL_OPTIONAL
    # lakeFS includes the JSON name in message descriptions.
    json_name = name[0] + name.title().replace("_", "")[1:]
    return _Field(
        name=name,
        number=number,
        type=kind,
        label=label,
        type_name=type_name or None,
        json_name=json_name,
    )


def _string_map(owner: str, name: str, number: int) -> tuple[Any, Any]:
    """Return the field of a `map<string, string>`, and its nested message."""
    entry = descriptor_pb2.DescriptorProto(name=f"{name.capitalize()}Entry")
    entry.field.append(_field("key", 1, _Field.TYPE_STRING))
    entry.field.append(_field("value", 2, _Field.TYPE_STRING))
    entry.options.map_entry = True
    kind = f".{owner}.{entry.name}"
    return _field(name, number, _Field.TYPE_MESSAGE, kind, many=True), entry


def _entry_descriptor() -> Any:
    message = descriptor_pb2.DescriptorProto(name="Entry")
    metadata, pairs = _string_map("io.treeverse.lakefs.catalog.Entry", "metadata", 5)
    address_type = ".io.treeverse.lakefs.catalog.Entry.AddressType"
    message.field.extend(
        [
            _field("address", 1, _Field.TYPE_STRING),
            _field("last_modified", 2, _Field.TYPE_MESSAGE, _TIMESTAMP),
            _field("size", 3, _Field.TYPE_INT64),
            _field("e_tag", 4, _Field.TYPE_STRING),
            metadata,
            _field("address_type", 6, _Field.TYPE_ENUM, address_type),
            _field("content_type", 7, _Field.TYPE_STRING),
        ]
    )
    message.nested_type.append(pairs)
    values = message.enum_type.add(name="AddressType")
    for number, name in enumerate(("BY_PREFIX_DEPRECATED", "RELATIVE", "FULL")):
        values.value.add(name=name, number=number)
    return message


def _range_data_descriptor() -> Any:
    message = descriptor_pb2.DescriptorProto(name="RangeData")
    message.field.extend(
        [
            _field("min_key", 1, _Field.TYPE_BYTES),
            _field("max_key", 2, _Field.TYPE_BYTES),
            _field("estimated_size", 3, _Field.TYPE_UINT64),
            _field("count", 4, _Field.TYPE_INT64),
            # An extension of sparklake: lakeFS has no tombstones in ranges, and its
            # readers ignore the field.
            _field("tombstones", 1000, _Field.TYPE_INT64),
        ]
    )
    return message


def _commit_data_descriptor() -> Any:
    message = descriptor_pb2.DescriptorProto(name="CommitData")
    metadata, pairs = _string_map("io.treeverse.lakefs.graveler.CommitData", "metadata", 6)
    message.field.extend(
        [
            _field("id", 1, _Field.TYPE_STRING),
            _field("committer", 2, _Field.TYPE_STRING),
            _field("message", 3, _Field.TYPE_STRING),
            _field("creation_date", 4, _Field.TYPE_MESSAGE, _TIMESTAMP),
            _field("meta_range_id", 5, _Field.TYPE_STRING),
            metadata,
            _field("parents", 7, _Field.TYPE_STRING, many=True),
            _field("version", 8, _Field.TYPE_INT32),
            _field("generation", 9, _Field.TYPE_INT32),
        ]
    )
    message.nested_type.append(pairs)
    return message


def _branch_data_descriptor() -> Any:
    message = descriptor_pb2.DescriptorProto(name="BranchData")
    message.field.extend(
        [
            _field("id", 1, _Field.TYPE_STRING),
            _field("commit_id", 2, _Field.TYPE_STRING),
            _field("staging_token", 3, _Field.TYPE_STRING),
            _field("sealed_tokens", 4, _Field.TYPE_STRING, many=True),
            _field("hidden", 5, _Field.TYPE_BOOL),
        ]
    )
    return message


def _tag_data_descriptor() -> Any:
    message = descriptor_pb2.DescriptorProto(name="TagData")
    message.field.append(_field("id", 1, _Field.TYPE_STRING))
    message.field.append(_field("commit_id", 2, _Field.TYPE_STRING))
    return message


def _pair(kind: Any, type_name: str = "") -> Any:
    """Return the message of a map's entry. On the wire, a map is a list of them."""
    pair = descriptor_pb2.DescriptorProto(name="Pair")
    pair.field.extend([_field("key", 1, _Field.TYPE_STRING), _field("value", 2, kind, type_name)])
    return pair


def _retention_rules_descriptor() -> Any:
    message = descriptor_pb2.DescriptorProto(name="GarbageCollectionRules")
    pair = ".io.treeverse.lakefs.graveler.GarbageCollectionRules.Pair"
    message.field.extend(
        [
            _field("default_retention_days", 1, _Field.TYPE_INT32),
            _field("branch_retention_days", 2, _Field.TYPE_MESSAGE, pair, many=True),
        ]
    )
    message.nested_type.append(_pair(_Field.TYPE_INT32))
    return message


def _protection_rules_descriptor() -> Any:
    message = descriptor_pb2.DescriptorProto(name="BranchProtectionRules")
    owner = ".io.treeverse.lakefs.graveler.BranchProtectionRules"
    name = "branch_pattern_to_blocked_actions"
    message.field.append(_field(name, 1, _Field.TYPE_MESSAGE, f"{owner}.Pair", many=True))
    actions = descriptor_pb2.DescriptorProto(name="Actions")
    actions.field.append(_field("value", 1, _Field.TYPE_INT32, many=True))
    message.nested_type.extend([_pair(_Field.TYPE_MESSAGE, f"{owner}.Actions"), actions])
    return message


def _message_class(pool: Any, file: str, package: str, descriptor: Any) -> Any:
    proto = descriptor_pb2.FileDescriptorProto(
        name=file,
        package=package,
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
        message_type=[descriptor],
    )
    pool.AddSerializedFile(proto.SerializeToString())
    found = pool.FindMessageTypeByName(f"{package}.{descriptor.name}")
    _keep_classes(found)
    return message_factory.GetMessageClass(found)


def _keep_classes(descriptor: Any) -> None:
    """Keep the classes of nested messages.

    protobuf 4.24 keeps them only until the next garbage collection. A later access to such a field
    crashes the process.
    """
    for field in descriptor.fields:
        if field.message_type is not None:
            _CLASSES.append(message_factory.GetMessageClass(field.message_type))
            _keep_classes(field.message_type)


_CLASSES: list[Any] = []


# A private pool: messages of the same names in other libraries do not conflict.
_POOL: Any = descriptor_pool.DescriptorPool()
_POOL.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)

EntryMessage: Any = _message_class(
    _POOL, "catalog.proto", "io.treeverse.lakefs.catalog", _entry_descriptor()
)
RangeDataMessage: Any = _message_class(
    _POOL, "graveler.proto", "io.treeverse.lakefs.graveler", _range_data_descriptor()
)
CommitDataMessage: Any = _message_class(
    _POOL, "commit.proto", "io.treeverse.lakefs.graveler", _commit_data_descriptor()
)
BranchDataMessage: Any = _message_class(
    _POOL, "branch.proto", "io.treeverse.lakefs.graveler", _branch_data_descriptor()
)
TagDataMessage: Any = _message_class(
    _POOL, "tag.proto", "io.treeverse.lakefs.graveler", _tag_data_descriptor()
)
RetentionRulesMessage: Any = _message_class(
    _POOL, "retention.proto", "io.treeverse.lakefs.graveler", _retention_rules_descriptor()
)
ProtectionRulesMessage: Any = _message_class(
    _POOL, "protection.proto", "io.treeverse.lakefs.graveler", _protection_rules_descriptor()
)
