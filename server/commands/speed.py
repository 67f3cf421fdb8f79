"""What measured speeds mean for a turn, and which model suits this machine. Pure arithmetic.

The recipe's constants were measured with the embedded models on two cores: they tell fast machines from slow ones,
not 10 percent from 20.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from server.commands.bench import Measure
    from server.commands.machine import ArithmeticSpeed


@dataclass(frozen=True, slots=True)
class TurnRecipe:
    """What a turn of three spoken seconds is made of; figures of the embedded models."""

    hear_gflop: float = 200.0
    """Arithmetic of hearing 3 s with Whisper base and five beams."""
    prompt_tokens: int = 45
    """Prompt tokens that no cache saves: the user's words and the last answer."""
    prompt_gflop_per_token: float = 3.1
    clause_tokens: int = 22
    """Tokens written until the first clause is whole: emotion, action, and the clause."""
    token_gigabytes: float = 0.35
    """Memory read for one token written."""
    clause_speech_seconds: float = 0.1
    call_tokens: int = 24
    """Tokens written to search memory, before the answer."""
    search_seconds: float = 0.03
    found_tokens: int = 90
    """Prompt tokens of that call and of what it found, as a small model is shown them."""


RECIPE = TurnRecipe()
GOOD_SECONDS = 3.0
SLOW_SECONDS = 7.0
LOOKING_UP_SECONDS = 3.0
"""How much longer an answer out of memory may take: the robot says meanwhile that it is thinking."""


@dataclass(frozen=True, slots=True)
class BetterModel:
    """An Instruct GGUF that answers better than the one the package index has. `name`: its id on the model hub."""

    title: str
    name: str


SMALL_MODEL = BetterModel("Qwen2.5 0.5B Instruct", "Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q4_K_M")
LARGER_MODEL = BetterModel("Qwen2.5 1.5B Instruct", "Qwen/Qwen2.5-1.5B-Instruct-GGUF:Q4_K_M")
LARGER_MODEL_COST = 3.0
"""How much longer the larger one thinks."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Figures and their meaning. `first_sound_seconds`: from the end of 3 s of speech to the robot's first sound;
    `looked_up_seconds`: the same when it searches its memory before it answers."""

    gflops: float
    gigabytes_per_second: float
    hear_seconds: float
    think_seconds: float
    speak_seconds: float
    look_up_seconds: float
    """What a search of memory adds: writing the call, searching, reading what was found."""
    measured: bool
    """True: from the real models; False: estimated from the arithmetic."""
    measures: tuple[Measure, ...]

    @property
    def first_sound_seconds(self) -> float:
        return self.hear_seconds + self.think_seconds + self.speak_seconds

    @property
    def looked_up_seconds(self) -> float:
        return self.first_sound_seconds + self.look_up_seconds

    @property
    def meaning(self) -> str:
        """One sentence for the owner."""
        how = "measured" if self.measured else "estimated"
        slowest = max(self.first_sound_seconds, self.looked_up_seconds - LOOKING_UP_SECONDS)
        verdict = (
            "fast enough for a good conversation"
            if slowest < GOOD_SECONDS
            else "slow, but usable"
            if slowest < SLOW_SECONDS
            else "too slow for fun: more cores, or the models on another machine, would help"
        )
        return (
            f"3 s of speech: the robot starts to answer after about {self.first_sound_seconds:.1f} s ({how}: hear "
            f"{self.hear_seconds:.1f}, think {self.think_seconds:.1f}, speak {self.speak_seconds:.1f}), after about "
            f"{self.looked_up_seconds:.1f} s when it looks into its memory first: {verdict}. "
            f"{self.gflops:.0f} GFLOPS, memory {self.gigabytes_per_second:.0f} GB/s."
        )


def judge_speed(arithmetic: ArithmeticSpeed, measures: Sequence[Measure], recipe: TurnRecipe = RECIPE) -> Speed:
    """What a turn takes: from the measured stages where there are some, else from the arithmetic."""
    took = {measure.stage: measure for measure in measures}
    hear = recipe.hear_gflop / arithmetic.gflops
    prompt_seconds_per_token = recipe.prompt_gflop_per_token / arithmetic.gflops
    write_seconds_per_token = recipe.token_gigabytes / arithmetic.gigabytes_per_second
    measured = "hear" in took and "write" in took
    if measured:
        hear = took["hear"].seconds
        prompt_seconds_per_token = took["read a prompt"].seconds / max(1, took["read a prompt"].units)
        write_seconds_per_token = took["write"].seconds / max(1, took["write"].units)
    think = recipe.prompt_tokens * prompt_seconds_per_token + recipe.clause_tokens * write_seconds_per_token
    # A first clause is about a third of the sentence spoken for the measure.
    search = took["remember"].seconds if "remember" in took else recipe.search_seconds
    look_up = recipe.call_tokens * write_seconds_per_token + search + recipe.found_tokens * prompt_seconds_per_token
    speak = took["speak"].seconds / 3 if "speak" in took else recipe.clause_speech_seconds
    return Speed(
        gflops=arithmetic.gflops,
        gigabytes_per_second=arithmetic.gigabytes_per_second,
        hear_seconds=hear,
        think_seconds=think,
        speak_seconds=speak,
        look_up_seconds=look_up,
        measured=measured,
        measures=tuple(measures),
    )


def better_model(speed: Speed | None) -> BetterModel:
    """The better small Qwen that this machine can bear."""
    if speed is None:
        return SMALL_MODEL
    with_larger = speed.first_sound_seconds + (LARGER_MODEL_COST - 1) * speed.think_seconds
    return LARGER_MODEL if with_larger < GOOD_SECONDS else SMALL_MODEL
