"""How words of a command line become options: several values, headings, commands loaded late, completion."""
