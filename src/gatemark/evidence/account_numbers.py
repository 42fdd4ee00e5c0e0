"""Find bank account numbers (IBAN) in texts."""

from __future__ import annotations

import re
from typing import Final

ACCOUNT_NUMBER: Final = re.compile(
    r"(?<![0-9A-Za-z])[A-Za-z]{2}\d{2}(?:[ _-]?[0-9A-Za-z]{4}){2,7}(?:[ _-]?[0-9A-Za-z]{1,3})?"
    r"(?![0-9A-Za-z])"
)
_IBAN_SIZES: Final = {
    **dict.fromkeys(("NO",), 15),
    **dict.fromkeys(("BE",), 16),
    **dict.fromkeys(("DK", "FI", "FO", "GL", "NL"), 18),
    **dict.fromkeys(("MK", "SI"), 19),
    **dict.fromkeys(("AT", "BA", "EE", "KZ", "LT", "LU", "XK"), 20),
    **dict.fromkeys(("CH", "HR", "LI", "LV"), 21),
    **dict.fromkeys(("BG", "BH", "CR", "DE", "GB", "GE", "IE", "ME", "RS", "VA"), 22),
    **dict.fromkeys(("AE", "GI", "IL", "IQ", "TL"), 23),
    **dict.fromkeys(("AD", "CZ", "ES", "MD", "PK", "RO", "SA", "SE", "SK", "TN", "VG"), 24),
    **dict.fromkeys(("LY", "PT", "ST"), 25),
    **dict.fromkeys(("IS", "TR"), 26),
    **dict.fromkeys(("FR", "GR", "IT", "MC", "MR", "SM"), 27),
    **dict.fromkeys(("AL", "AZ", "BY", "CY", "DO", "GT", "HU", "LB", "NI", "PL", "SV"), 28),
    **dict.fromkeys(("BR", "EG", "PS", "QA", "UA"), 29),
    **dict.fromkeys(("JO", "KW", "MU"), 30),
    **dict.fromkeys(("MT", "SC"), 31),
    "LC": 32,
}
_IBAN_DIGITS: Final = {"AD": 12, "AE": 23, "BA": 20, "BE": 16, "DE": 22, "EE": 20}
"""Up to which place an account number has digits only, where a hexadecimal id can begin like it."""


def is_account_number(text: str) -> bool:
    """Return whether a word is an account number: the length of its country, and the checksum."""
    word = re.sub(r"[ _-]", "", text).upper()
    if len(word) != _IBAN_SIZES.get(word[:2]):
        return False
    if not word[2 : _IBAN_DIGITS.get(word[:2], 4)].isdigit():
        return False
    digits = "".join(str(int(sign, 36)) for sign in word[4:] + word[:4])
    return int(digits) % 97 == 1


_OTHER_IBANS: Final = "|".join(code for code in _IBAN_SIZES if code not in _IBAN_DIGITS)
MAY_BE_ACCOUNT_NUMBER: Final = (
    rf"(?i:(?:^|[^0-9a-z\n])(?:(?:{_OTHER_IBANS})[0-9]{{2}}(?:[ _-]?[0-9a-z]{{4}}){{2}}"
    rf"|(?:{'|'.join(_IBAN_DIGITS)})[0-9]{{2}}(?:[ _-]?[0-9]{{4}}){{2}}))"
)
