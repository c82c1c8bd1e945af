"""A model of publishing and collection, of which every state is visited."""
