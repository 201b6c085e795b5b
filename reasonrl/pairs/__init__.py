"""Preference pairs and demonstrations from verified responses: right ones above wrong ones, written for any trainer."""
