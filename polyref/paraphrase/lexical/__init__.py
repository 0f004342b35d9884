"""Lexical substitution: paraphrases in which one word or phrase stands for another."""
