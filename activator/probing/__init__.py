"""Our own probe of each pod: ``probe`` is one question and its answer, ``prober`` says when."""
