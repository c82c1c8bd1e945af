"""The core: records, ranges, the algebra and the plans, without Spark, databases or clouds."""
