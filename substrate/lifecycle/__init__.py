"""What happens to a memory over time: matching, extraction, dreaming, consolidation."""
