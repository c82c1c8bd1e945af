"""Objects as Arrow rows, and the bodies that copy them."""
