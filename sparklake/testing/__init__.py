"""What tests, campaigns and implementers of a store share; the package never imports it."""
