"""The commands of the kernel, one module each; ``commands`` lists those of every ring."""
