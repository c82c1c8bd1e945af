"""The steps of each verb: resolve, plan, run, publish.

`base/` is shared by all verbs, `commits.py` is the commit, and each other folder is a feature.
"""
