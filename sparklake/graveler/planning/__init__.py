"""Plans: which ranges a verb copies by id and which it opens."""
