"""Task bodies: generators from Arrow batches to Arrow batches, the same on every engine.

An engine may run a task twice, concurrently (speculation) or after a failure. So a second run of a
body has the same effect as the first: it puts the same files and deletes the same objects.
"""
