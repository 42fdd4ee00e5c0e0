"""One file per evidence schema: typed forms, rules across fields, good and bad examples."""
