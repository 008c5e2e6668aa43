"""The laws that search and training rely on, tried with a user's own model on the user's own machine."""
