"""Diffs of refs, trees and staged changes, object by object."""
