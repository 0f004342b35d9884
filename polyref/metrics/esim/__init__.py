"""ESIM: a trained, sentence-level metric of (reference, output) pairs; parESIM with extra references."""
