"""Labels in a database."""


class SqlLabels:
    """Labels."""

    def __init__(self, database: object) -> None:
        self._database = database
