"""Run: plans in the portable subset as DuckDB SQL over Parquet files, in milliseconds and without Spark."""
