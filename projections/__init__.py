"""What can be rebuilt from the stream: indexes, the tail that feeds them, and recall over them."""
