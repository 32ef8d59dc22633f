"""Models as files of other runtimes: numbers in, numbers out, and what a reader needs to make the numbers."""
