"""Tables that lakeFS 1.84.0 wrote (`namespace/`), and what it says of them.

`listing.json` holds its commits, their entries and their diffs; `ranges.json` the records of every
range, with the value's bytes.
"""
