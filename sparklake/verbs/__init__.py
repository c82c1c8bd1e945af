"""The steps of each verb: resolve, plan, run, publish. `Repository` and `Branch` only name them."""
