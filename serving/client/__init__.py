"""Client"""
