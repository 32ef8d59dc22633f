"""Export"""
