// What the robot does now, for the eye and for a screen reader: the light of its face, words below it, and how long one
// has waited. Knows no link and no sound; whoever knows what goes on tells it.

import { $, say, sayNothing } from "./page.js";
import { text } from "./text.js";

const TOLD_AFTER_S = 4;
const STEP_S = 1;
const CALM_STEP_S = 5; // for who wants less to move

export class Doing {
  constructor(face) {
    Object.assign(this, { face, shown: "", since: 0, ticking: null });
  }

  // `doing`: "listening", "muted" (the microphone is open and hears nothing), "thinking", "speaking" or "".
  show(doing, isLost) {
    this.face.setDoing(doing || !isLost ? doing : "lost");
    if (doing === this.shown) return;
    this.shown = doing;
    this.since = performance.now();
    if (doing) say($("state"), `state.${doing}`);
    else sayNothing($("state"));
    $("elapsed").textContent = "";
    clearInterval(this.ticking);
    if (doing === "thinking") this.ticking = setInterval(() => this.#tick(), 250);
  }

  // Not a part of the words above: they would be read aloud every second.
  #tick() {
    const step = this.face.calm.matches ? CALM_STEP_S : STEP_S;
    const seconds = Math.floor((performance.now() - this.since) / 1000 / step) * step;
    const told = seconds < TOLD_AFTER_S ? "" : text("elapsed", { seconds });
    if ($("elapsed").textContent !== told) $("elapsed").textContent = told;
  }
}
