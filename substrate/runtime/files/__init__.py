"""File memory: files are memories under paths; their folders on this machine are a projection."""
