"""The report of a run as one HTML file: its sections as data, the page, and a page of several runs."""
