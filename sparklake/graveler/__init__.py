"""The core: records, ranges, the algebra and the plans.

It depends on no Spark, no database and no cloud.
"""
