"""Server"""
