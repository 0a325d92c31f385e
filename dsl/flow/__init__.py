"""Control flow and effects: branches, loops, printing and assertions."""
