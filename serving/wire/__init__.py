"""Wire"""
