"""Plans: the ranges that a verb copies by id and the ranges that it opens."""
