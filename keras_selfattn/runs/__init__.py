"""The folder of a training: its files, their record, and checks of them."""
