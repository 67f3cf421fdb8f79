"""English words that tell names and things from what is said of them; read by rules. Data only."""

from __future__ import annotations

import re

_VERBS = (
    "is are was were has have had isn't aren't wasn't hasn't does did doesn't didn't will won't would can can't could"
    " should must may might works lives goes teaches plays likes loves hates prefers eats drinks speaks studies learns"
    " starts begins ends opens closes costs takes makes wants needs knows thinks says tells comes leaves arrives runs"
    " sleeps snores barks sings writes reads drives rides owns keeps collects belongs looks sounds seems smells tastes"
    " weighs holds gets gives helps moves stays visits cooks bakes paints grows turns means lies sits stands hurts"
    " leaks retires graduates married went got came left began died made took gave said told bought sold saw met found"
    " lost broke fell ran won ate drank grew knew became built wrote read taught caught paid cost quit hurt lay sat"
    " stood slept spoke spent sent kept held flew drove rode swam sang wore called named"
)
VERBS = frozenset(_VERBS.split())
"""What follows a subject: third person and past."""

_NO_THING = (
    "a an the my our his her their your this that these those i you he she it we they me him us them who which what"
    " whom whose when where why how in on at by with from to of for into onto near under over above below behind before"
    " after since until during about around through without within beside between next and or but so because if than"
    " as while though very too also just now then again today yesterday tomorrow soon already still always never often"
    " usually really there here not no yes ago every each all both some any many much more most one two three four five"
    " six seven eight nine ten half few couple be been being am do"
)
NO_THING = frozenset(_NO_THING.split()) | VERBS
"""What no name of a thing goes on with."""

_HEADS = (
    "sister brother mother father mom mum dad wife husband son daughter grandma grandpa grandmother grandfather uncle"
    " aunt cousin nephew niece baby boyfriend girlfriend partner fiance fiancee friend neighbor neighbour boss teacher"
    " doctor dentist roommate flatmate landlord colleague dog cat rabbit hamster parrot puppy kitten parents"
)
HEADS = frozenset(_HEADS.split())
"""Whom something is said of: what comes next is said of them."""

_STARTERS = (
    "everything something nothing anything everyone everybody someone somebody nobody anyone it's that's there's here's"
    " what's who's he's she's let's dinner lunch breakfast school work time life coffee tea music food water weather"
    " money traffic rain snow winter spring summer autumn fall home half part both most many few other another either"
    " neither none maybe perhaps also then there here today tonight yesterday tomorrow actually still already please"
    " thanks thank sorry only even all some any each every if when while because since after before although though"
    " until once where why how who whose do does did is are was were am has have had can could will would should may"
    " might must don't at in on with from to of for into near as not never always sometimes usually often me us him"
    " them your his its their these those two three four five six seven eight nine ten dear sir love god turn look tell"
    " stop play let go come give take put see sure right great nice cool fine ouch wow haha ha bye goodbye congrats"
    " english class classes practice training church business christmas easter which"
)
STARTERS = frozenset(_STARTERS.split())
"""Words with which a sentence begins, and which are no name for being written with a capital."""

MEASURED = re.compile(r"\b\d[\d.,]*\s?(?:[KMGT]i?B|[kMG]?Hz|kW|[kcm]?[mglWV]|[kc]m|mm|kg|mg|ml|AM|PM|am|pm|°?[CF])\b")
"""A number with its unit."""
