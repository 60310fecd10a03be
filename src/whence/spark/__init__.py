"""Run on Spark: sessions, lifting plans from DataFrames, lowering them back, row ids, streaming runs.

Importing this room imports no PySpark and starts nothing; its modules do, when they are called.
"""
