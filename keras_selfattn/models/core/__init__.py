"""The encoder between the front end of a task and the head: its layers, several of them, their weights."""
