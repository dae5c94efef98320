"""One process: the facade, working memory, sessions, observability, reminders, workspace."""
