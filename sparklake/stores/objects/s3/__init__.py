"""The store of a bucket of any S3 endpoint."""
