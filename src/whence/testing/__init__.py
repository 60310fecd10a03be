"""For tests, ours and users': strategies for plans and tables."""
