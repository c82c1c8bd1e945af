"""What a history says: its commits, what they changed, and a picture of them."""
