"""English replies as they are read aloud: what the voice cannot read by itself."""

from __future__ import annotations

import pytest

from server.pipeline.speakable import speakable

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "written",
    [
        "It costs $5.",
        "It costs $1,234.56.",
        "Nov 30, 2026",
        "2026-11-30",
        "at 10:30, or 3 p.m.",
        "The 3rd of May",
        "Dr. Smith lives on Main St. now.",
        "3-5 days",
        "World War II",
        "50% of 1,234 people",
        "no. 3",
        "AT&T",
        "555-1234",
        "It's 60 km/h.",
        "Henry VIII",
        'He said "hi" to me.',
    ],
)
def test_what_the_voice_reads_well_stays(written: str) -> None:
    assert speakable(written, "en") == written


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Cats, e.g. lions", "Cats, for example lions"),
        ("I.e. the red one.", "that is the red one."),
        ("Cats, dogs, etc.", "Cats, dogs, and so on."),
        ("Cats, etc. They are nice.", "Cats, and so on. They are nice."),
        ("Cats, etc. are nice.", "Cats, and so on are nice."),
        ("red vs. blue", "red versus blue"),
        ("coffee w/ milk", "coffee with milk"),
        ("v1.2", "version 1 point 2"),
        ("p. 12", "page 12"),
        ("He is 6'2\".", "He is 6 foot 2."),
        ("3x/day", "3 times per day"),
        ("it is 50/50", "it is 50 50"),
        ("7:30am–8am", "7:30am to 8am"),
        ("open 24/7", "open 24 7"),
        ("30 m²", "30 square meters"),
        ("5 km^2", "5 square kilometers"),
        ("25°C", "25 degrees Celsius"),
        ("1°", "1 degree"),
        ("77℉", "77 degrees Fahrenheit"),
        ("100m", "100 meters"),
        ("5 L", "5 liters"),
        ("$5m", "$5m"),
        ("E = mc²", "E equals mc squared"),
        ("2^10", "2 to the power of 10"),
        ("~5 people", "about 5 people"),
        ("10–20 people", "10 to 20 people"),
        ("x ≥ 5", "x at least 5"),
        ("5 > 3", "5 is greater than 3"),
        ("3*4=12", "3 times 4 equals 12"),
        ("3 × 4", "3 times 4"),
        ("10 ÷ 2", "10 divided by 2"),
        ("5 - 3", "5 minus 3"),
        ("-5 degrees", "minus 5 degrees"),
        ("±2", "plus or minus 2"),
        ("½ cup", "1/2 cup"),
        ("A & B", "A and B"),
        ("#1", "number 1"),
        ("#cats", "hashtag cats"),
        ("@taro", "at taro"),
        ("C++ and C#", "C plus plus and C sharp"),
        ("he/she", "he or she"),
        ("book(s)", "books"),
        ("Tokyo → Osaka", "Tokyo to Osaka"),
        ("yes—no", "yes, no"),
        ("Dr. Smith (my friend) came.", "Dr. Smith, my friend, came."),
        ("(hello)", "hello"),
        ("Wait... what?!", "Wait... what?"),
        ("Hi!!!", "Hi!"),
        ("snake_case", "snake case"),
        ("I live in 東京、you know.", "I live in 東京, you know."),
    ],
)
def test_short_forms_are_said_in_full(written: str, spoken: str) -> None:
    assert speakable(written, "en") == spoken
