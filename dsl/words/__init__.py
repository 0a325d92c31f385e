"""What the language is spelt with, and knows no staged value: names, lines, subscripts."""
