"""Common parts of unions of table histories, for any table format."""
