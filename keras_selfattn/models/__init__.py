"""Models"""
