"""Diffs of refs, of trees and of staged changes, object by object."""
