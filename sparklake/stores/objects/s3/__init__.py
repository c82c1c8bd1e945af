"""The store of a bucket at any S3 endpoint."""
