"""What comes into a repository from outside, and what goes out of it."""
