"""The steps of each verb: resolve, plan, run, publish. `Repository` and `Branch` only name them.

Here is what verbs share, and those of refs, staging and commits. The rest is in rooms: `objects`,
`tables`, `delta`, `merging`, `history`, and `exchange` for imports and exports.
"""
