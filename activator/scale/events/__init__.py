"""Events on Services, for users of ``kubectl describe service``."""
