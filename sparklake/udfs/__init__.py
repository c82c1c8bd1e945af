"""Task bodies: generators from Arrow batches to Arrow batches, the same on every engine.

An engine may run a task twice, concurrently (speculation) or after a failure. So a body writes only
content-named or absent keys, streams its input, and yields a bounded number of small messages.
"""
