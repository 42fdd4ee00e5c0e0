"""The page and its interface: FastAPI over the journeys of flow, with nothing from elsewhere."""
