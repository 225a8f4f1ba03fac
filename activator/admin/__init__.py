"""The admin side: health, metrics and what a running activator knows; read only."""
