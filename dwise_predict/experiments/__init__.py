"""The paper's experiments, each as one command on a model of one's own."""
