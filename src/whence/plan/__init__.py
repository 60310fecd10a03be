"""Describe: the algebra of plans. Nodes, expressions, types, text form, builder; nothing runs here."""
