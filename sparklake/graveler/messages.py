"""lakeFS's protobuf messages in tables, for every supported release of protobuf."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

_Field = descriptor_pb2.FieldDescriptorProto
_BOOL, _BYTES, _STRING = _Field.TYPE_BOOL, _Field.TYPE_BYTES, _Field.TYPE_STRING
_INT32, _INT64, _UINT64 = _Field.TYPE_INT32, _Field.TYPE_INT64, _Field.TYPE_UINT64
_ENUM, _MESSAGE = _Field.TYPE_ENUM, _Field.TYPE_MESSAGE
_TIMESTAMP = ".google.protobuf.Timestamp"

# A private pool: messages of the same names in other libraries do not conflict.
_POOL: Any = descriptor_pool.DescriptorPool()
_POOL.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
_CLASSES: list[Any] = []


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


def _message(name: str, *fields: Any, **parts: Any) -> Any:
    return descriptor_pb2.DescriptorProto(name=name, field=fields, **parts)


def _pair(name: str, kind: Any, type_name: str = "", **parts: Any) -> Any:
    """Return the message of a map's entry. On the wire, a map is a list of them."""
    return _message(name, _field("key", 1, _STRING), _field("value", 2, kind, type_name), **parts)


def _message_class(file: str, package: str, name: str, *fields: Any, **parts: Any) -> Any:
    proto = descriptor_pb2.FileDescriptorProto(
        name=file,
        package=package,
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
        message_type=[_message(name, *fields, **parts)],
    )
    _POOL.AddSerializedFile(proto.SerializeToString())
    descriptor = _POOL.FindMessageTypeByName(f"{package}.{name}")
    _keep_classes(descriptor)
    return message_factory.GetMessageClass(descriptor)


def _keep_classes(descriptor: Any) -> None:
    """Keep the classes of nested messages.

    protobuf 4.24 keeps them only until the next collection by Python's gc. A later access to such a
    field crashes the process.
    """
    for field in descriptor.fields:
        if field.message_type is not None:
            _CLASSES.append(message_factory.GetMessageClass(field.message_type))
            _keep_classes(field.message_type)


_CATALOG, _GRAVELER = "io.treeverse.lakefs.catalog", "io.treeverse.lakefs.graveler"
_ADDRESS_TYPE = descriptor_pb2.EnumDescriptorProto(
    name="AddressType",
    value=[
        descriptor_pb2.EnumValueDescriptorProto(name=name, number=number)
        for number, name in enumerate(("BY_PREFIX_DEPRECATED", "RELATIVE", "FULL"))
    ],
)
_METADATA = _pair("MetadataEntry", _STRING, options=descriptor_pb2.MessageOptions(map_entry=True))

EntryMessage: Any = _message_class(
    "catalog.proto",
    _CATALOG,
    "Entry",
    _field("address", 1, _STRING),
    _field("last_modified", 2, _MESSAGE, _TIMESTAMP),
    _field("size", 3, _INT64),
    _field("e_tag", 4, _STRING),
    _field("metadata", 5, _MESSAGE, f".{_CATALOG}.Entry.MetadataEntry", many=True),
    _field("address_type", 6, _ENUM, f".{_CATALOG}.Entry.AddressType"),
    _field("content_type", 7, _STRING),
    nested_type=[_METADATA],
    enum_type=[_ADDRESS_TYPE],
)
RangeDataMessage: Any = _message_class(
    "graveler.proto",
    _GRAVELER,
    "RangeData",
    _field("min_key", 1, _BYTES),
    _field("max_key", 2, _BYTES),
    _field("estimated_size", 3, _UINT64),
    _field("count", 4, _INT64),
    # An extension of sparklake: lakeFS has no tombstones in ranges, and its readers
    # ignore the field.
    _field("tombstones", 1000, _INT64),
)
CommitDataMessage: Any = _message_class(
    "commit.proto",
    _GRAVELER,
    "CommitData",
    _field("id", 1, _STRING),
    _field("committer", 2, _STRING),
    _field("message", 3, _STRING),
    _field("creation_date", 4, _MESSAGE, _TIMESTAMP),
    _field("meta_range_id", 5, _STRING),
    _field("metadata", 6, _MESSAGE, f".{_GRAVELER}.CommitData.MetadataEntry", many=True),
    _field("parents", 7, _STRING, many=True),
    _field("version", 8, _INT32),
    _field("generation", 9, _INT32),
    nested_type=[_METADATA],
)
BranchDataMessage: Any = _message_class(
    "branch.proto",
    _GRAVELER,
    "BranchData",
    _field("id", 1, _STRING),
    _field("commit_id", 2, _STRING),
    _field("staging_token", 3, _STRING),
    _field("sealed_tokens", 4, _STRING, many=True),
    _field("hidden", 5, _BOOL),
)
TagDataMessage: Any = _message_class(
    "tag.proto", _GRAVELER, "TagData", _field("id", 1, _STRING), _field("commit_id", 2, _STRING)
)

_RETENTION, _PROTECTION = "GarbageCollectionRules", "BranchProtectionRules"
_PATTERNS, _ACTIONS = "branch_pattern_to_blocked_actions", f".{_GRAVELER}.{_PROTECTION}.Actions"

RetentionRulesMessage: Any = _message_class(
    "retention.proto",
    _GRAVELER,
    _RETENTION,
    _field("default_retention_days", 1, _INT32),
    _field("branch_retention_days", 2, _MESSAGE, f".{_GRAVELER}.{_RETENTION}.Pair", many=True),
    nested_type=[_pair("Pair", _INT32)],
)
ProtectionRulesMessage: Any = _message_class(
    "protection.proto",
    _GRAVELER,
    _PROTECTION,
    _field(_PATTERNS, 1, _MESSAGE, f".{_GRAVELER}.{_PROTECTION}.Pair", many=True),
    nested_type=[
        _pair("Pair", _MESSAGE, _ACTIONS),
        _message("Actions", _field("value", 1, _INT32, many=True)),
    ],
)
