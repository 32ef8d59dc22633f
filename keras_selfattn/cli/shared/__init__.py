"""Parts that several commands share: consoles, options and their headings, checks, progress, tables."""
