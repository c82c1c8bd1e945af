"""The steps of each verb: resolve, plan, run, publish.

`base/` has what all verbs share, `commits.py` the commit; each other folder is one feature.
"""
