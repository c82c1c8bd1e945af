"""Objects as Arrow rows, and the task bodies that copy them."""
