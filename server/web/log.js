// What was said, as bubbles: the person's words, the robot's with face, sound and times. Knows turns as the server
// answers them; how sound is played and traces are fetched it is told.

import { $, add, say, sayNothing } from "./page.js";
import { drawTrace } from "./waterfall.js";

const MOST_TRACES = 5;

const scroll = () => ($("log").scrollTop = $("log").scrollHeight);
const seconds = (ms) => (ms / 1000).toFixed(1);

export class Log {
  // `replay(turn)`: act and say it again. `fetchTrace(turnId)`: a promise of its times; rejects when there are none.
  constructor({ replay, fetchTrace, onProblem }) {
    Object.assign(this, { replay, fetchTrace, onProblem });
    this.recent = [];
    $("recent").addEventListener("toggle", () => $("recent").open && this.#drawRecent());
  }

  clear() {
    $("log").replaceChildren();
    this.recent = [];
    this.#drawRecent();
  }

  // The person says something; `words` null: with their voice, which is to be understood yet.
  mine(words) {
    const node = add($("log"), "div", "mine");
    const said = add(node, "p", "words", words ?? "");
    if (words === null) say(said, "voice");
    scroll();
    return {
      heard(transcript, language) {
        sayNothing(said);
        said.textContent = transcript;
        said.lang = language ?? "";
        scroll();
      },
      lost: () => node.classList.add("lost"),
    };
  }

  // The robot begins to answer: its sentences are put in as they are heard, and `complete` adds the rest.
  robot() {
    const node = add($("log"), "div", "robot");
    const said = add(node, "p", "words");
    return {
      sentence(words) {
        // A piece of its own: a screen reader reads what is new.
        const apart = said.textContent && /[\x21-\x7e]$/.test(said.textContent) && /^[\x21-\x7e]/.test(words);
        said.append((apart ? " " : "") + words);
        scroll();
      },
      complete: (turn) => {
        const isUnheard = turn.outcome === "interrupted" && !turn.reply;
        if (isUnheard) say(said, "unheard");
        else if (turn.reply && said.textContent !== turn.reply) said.textContent = turn.reply;
        node.classList.toggle("unheard", isUnheard);
        if (!isUnheard) said.lang = turn.language ?? "";
        this.#details(node, turn, isUnheard);
        scroll();
      },
    };
  }

  #details(node, turn, isUnheard) {
    const tags = add(node, "p", "tags");
    if (!isUnheard) say(add(tags, "span", "tag"), `emotion.${turn.emotion}`);
    if (!isUnheard && turn.action && turn.action !== "none") say(add(tags, "span", "tag"), `action.${turn.action}`);
    if (turn.outcome === "interrupted") say(add(tags, "span", "tag"), "interrupted");
    if (turn.audio && !isUnheard) {
      const replay = say(add(tags, "button", "replay"), "replay");
      replay.type = "button";
      replay.addEventListener("click", () => this.replay(turn));
    }
    showLatency(node, turn.latency_ms ?? {});
    if (!Number.isInteger(turn.turn_id)) return;
    const details = add(node, "details", "trace");
    say(add(details, "summary", ""), "trace");
    details.addEventListener("toggle", () => this.#draw(details, turn.turn_id), { once: true });
    this.recent = [{ turn, node: null }, ...this.recent].slice(0, MOST_TRACES);
    if ($("recent").open) this.#drawRecent();
  }

  async #draw(parent, turnId) {
    try {
      drawTrace(parent, await this.fetchTrace(turnId), { add, say });
    } catch (problem) {
      this.onProblem(problem);
    }
  }

  // The last turns, newest first; each is fetched once, and only while somebody looks.
  #drawRecent() {
    for (const entry of this.recent) {
      if (entry.node) continue;
      entry.node = document.createElement("div");
      const line = add(entry.node, "p", "quiet");
      // Each by itself: words that run from right to left must not turn the other's around.
      add(line, "bdi", "", entry.turn.transcript || "…");
      line.append(" → ");
      add(line, "bdi", "", entry.turn.reply || "…");
      this.#draw(entry.node, entry.turn.turn_id);
    }
    $("recent-turns").replaceChildren(...this.recent.map((entry) => entry.node));
  }
}

// Stages overlap on the server, so the bar shows what one waited for: it is cut at the moments the server names.
// What is said live is heard while its end is waited for: only what was left to hear after that was waited for, too.
function showLatency(node, { silence = 0, vad = 0, asr = 0, first_clause, first_audio, total }) {
  if (!total) return;
  const heard = Math.max(silence, vad + asr);
  const clause = first_clause ?? first_audio ?? total;
  const sound = first_audio ?? clause;
  const parts = { wait: silence, hear: heard - silence, think: clause - heard, voice: sound - clause, rest: total - sound };
  const bar = add(node, "div", "bar");
  bar.setAttribute("aria-hidden", "true");
  const caption = add(node, "p", "latency");
  say(add(caption, "span", ""), first_audio ? "latency" : "latency.silent", { first: seconds(sound), total: seconds(total) });
  for (const [name, ms] of Object.entries(parts)) {
    if (ms < 50) continue; // would be told as 0.0 s
    add(bar, "span", name).style.flexGrow = ms;
    say(add(caption, "span", `key ${name}`), `latency.${name}`, { s: seconds(ms) });
  }
}
