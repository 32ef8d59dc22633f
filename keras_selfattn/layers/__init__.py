"""Layers"""
