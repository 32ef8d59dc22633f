"""Data"""
