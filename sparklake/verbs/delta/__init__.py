"""Delta tables of a repository: written, read and compared at refs, and united by merges."""

from sparklake.verbs.delta.unions import union_labels

__all__ = ["union_labels"]
