"""Files and folders that a reader may see: written whole, numbered, told apart; also in an object store."""
