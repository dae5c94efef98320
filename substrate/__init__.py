"""An event-sourced memory substrate for AI agents."""
