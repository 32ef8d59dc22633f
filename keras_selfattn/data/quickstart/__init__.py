"""First data without a download: names and sentences in many languages."""
