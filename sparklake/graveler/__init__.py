"""The core: records, ranges, the algebra and the plans. Knows no Spark, no database, no cloud."""
