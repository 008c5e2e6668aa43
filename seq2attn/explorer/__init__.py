"""The explorer: the decisions of a search, attention and its causes, as a page."""
